//! Files of records of one length, with an optional header and footer.

use std::io::{self, Read};

use crate::graph::FixedLength;

use super::error::RecordError;
use super::stream::read_more;

/// A reader of the records in a file of fixed-length records.
pub(crate) struct FixedLengthReader<R> {
    stream: R,
    layout: FixedLength,
    /// The start of the next record, in bytes.
    offset_bytes: u64,
    /// The bytes that were read after the last record, as many as the footer has. The reader needs the
    /// following bytes to know whether these bytes are the footer or part of a record.
    ahead: Vec<u8>,
    is_at_start: bool,
}

impl<R: Read> FixedLengthReader<R> {
    /// Reads records from `stream`. The stream is at `offset_bytes` of the uncompressed file, which is the
    /// start of the file or of a record.
    pub(crate) fn new(stream: R, layout: FixedLength, offset_bytes: u64) -> FixedLengthReader<R> {
        FixedLengthReader {
            stream,
            layout,
            offset_bytes,
            ahead: Vec::new(),
            is_at_start: offset_bytes == 0,
        }
    }

    /// Returns the start of the next record, in bytes.
    pub(crate) fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    /// Reads the next record and returns its start and its bytes; `None` at the end of the file.
    pub(crate) fn record(&mut self) -> Result<Option<(u64, Vec<u8>)>, RecordError> {
        if self.is_at_start {
            self.pass_header()?;
        }
        let (length, footer) = (self.layout.record_bytes, self.layout.footer_bytes);
        let had = self.ahead.len() as u64;
        let wanted = length + footer - had;
        let read = read_more(&mut self.stream, &mut self.ahead, wanted);
        let read = read.map_err(|error| self.unreadable(&error))?;
        if read == wanted {
            let rest = self.ahead.split_off(length as usize);
            let begin = self.offset_bytes;
            self.offset_bytes = begin.saturating_add(length);
            return Ok(Some((begin, std::mem::replace(&mut self.ahead, rest))));
        }
        if had + read == footer {
            return Ok(None);
        }
        Err(self.failed(format!(
            "expected a record of {length} bytes or a footer of {footer} bytes at the end, found {} bytes",
            had + read
        )))
    }

    fn pass_header(&mut self) -> Result<(), RecordError> {
        let header = self.layout.header_bytes;
        let passed = io::copy(&mut self.stream.by_ref().take(header), &mut io::sink());
        let passed = passed.map_err(|error| self.unreadable(&error))?;
        if passed < header {
            return Err(self.failed(format!(
                "expected a header of {header} bytes, found {passed} bytes"
            )));
        }
        self.is_at_start = false;
        self.offset_bytes = header;
        Ok(())
    }

    fn failed(&self, reason: String) -> RecordError {
        RecordError::unsuited(self.offset_bytes, reason)
    }

    fn unreadable(&self, error: &io::Error) -> RecordError {
        RecordError::unreadable(self.offset_bytes, error)
    }
}

/// Checks that an uncompressed file of `file_bytes` bytes holds a whole number of records, before the file is
/// read.
pub(crate) fn check_size(layout: &FixedLength, file_bytes: u64) -> Result<(), RecordError> {
    let around = layout.header_bytes + layout.footer_bytes;
    let records = file_bytes.checked_sub(around);
    if records.is_some_and(|records| records % layout.record_bytes == 0) {
        return Ok(());
    }
    Err(RecordError::unsuited(
        0,
        format!(
            "the file has {file_bytes} bytes, expected a whole number of records of {} bytes between a header of {} bytes \
             and a footer of {} bytes",
            layout.record_bytes, layout.header_bytes, layout.footer_bytes
        ),
    ))
}
