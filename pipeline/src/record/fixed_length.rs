//! Files of records of one length, with or without something in front of them and behind them.

use std::io::{self, Read};

use crate::graph::FixedLength;

use super::error::RecordError;
use super::stream::read_more;

/// The records of such a file.
pub(crate) struct FixedLengthReader<R> {
    stream: R,
    layout: FixedLength,
    /// Start of the next record.
    offset_bytes: u64,
    /// Bytes read from there on: as many as stand behind the records, since only what follows them tells
    /// whether they do.
    ahead: Vec<u8>,
    is_at_start: bool,
}

impl<R: Read> FixedLengthReader<R> {
    /// Reads records from `stream`, which is at `offset_bytes` of the uncompressed file: at its start, or
    /// where a record begins.
    pub(crate) fn new(stream: R, layout: FixedLength, offset_bytes: u64) -> FixedLengthReader<R> {
        FixedLengthReader {
            stream,
            layout,
            offset_bytes,
            ahead: Vec::new(),
            is_at_start: offset_bytes == 0,
        }
    }

    /// Returns the start of the next record.
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
            "{} bytes are left, which is neither a record of {length} bytes nor the {footer} bytes behind the last one",
            had + read
        )))
    }

    fn pass_header(&mut self) -> Result<(), RecordError> {
        let header = self.layout.header_bytes;
        let passed = io::copy(&mut self.stream.by_ref().take(header), &mut io::sink());
        let passed = passed.map_err(|error| self.unreadable(&error))?;
        if passed < header {
            return Err(self.failed(format!(
                "the file has {passed} bytes, which is less than the {header} in front of its records"
            )));
        }
        self.is_at_start = false;
        self.offset_bytes = header;
        Ok(())
    }

    fn failed(&self, reason: String) -> RecordError {
        RecordError::damage(self.offset_bytes, reason)
    }

    fn unreadable(&self, error: &io::Error) -> RecordError {
        RecordError::unreadable(self.offset_bytes, error)
    }
}

/// Refuses an uncompressed file of `file_bytes` that does not hold a whole number of records, before any of
/// it is read.
pub(crate) fn check_size(layout: &FixedLength, file_bytes: u64) -> Result<(), RecordError> {
    let around = layout.header_bytes + layout.footer_bytes;
    let records = file_bytes.checked_sub(around);
    if records.is_some_and(|records| records % layout.record_bytes == 0) {
        return Ok(());
    }
    Err(RecordError::damage(
        0,
        format!(
            "the file has {file_bytes} bytes, which is no whole number of records of {} bytes between a header of {} and a \
             footer of {}",
            layout.record_bytes, layout.header_bytes, layout.footer_bytes
        ),
    ))
}
