//! The TFRecord format of TensorFlow: a sequence of records, each with its length and checksums.
//!
//! A record is `length: u64`, `masked_crc32c(length): u32`, `length` bytes, and `masked_crc32c(bytes): u32`.
//! All numbers are little-endian. The masked checksum is the CRC-32C, rotated right by 15 bits, plus
//! `0xa282ead8`.

use std::io::{self, BufRead, Write};

use crate::graph::RECORD_BYTES_MAX;

use super::error::RecordError;
use super::stream::{fill, read_whole};

/// The number of bytes before a record: its length and the checksum of the length.
const HEADER_BYTES: u64 = 12;
/// The number of bytes after a record: its checksum.
const FOOTER_BYTES: u64 = 4;
/// The constant that is added to the rotated checksum. The mask avoids trivial checksums of data that
/// contains checksums.
const MASK_DELTA: u32 = 0xa282_ead8;

/// A reader of the records in a TFRecord file.
pub(crate) struct TfRecordReader<R> {
    stream: R,
    offset_bytes: u64,
}

impl<R: BufRead> TfRecordReader<R> {
    /// Reads records from `stream`, which is at the start of a record, `offset_bytes` bytes into the
    /// uncompressed file.
    pub(crate) fn new(stream: R, offset_bytes: u64) -> TfRecordReader<R> {
        TfRecordReader { stream, offset_bytes }
    }

    /// Returns the start of the next record, in bytes.
    pub(crate) fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    /// Reads the next record, verifies both checksums, and returns the record's start and bytes; `None` at
    /// the end of the file.
    pub(crate) fn record(&mut self) -> Result<Option<(u64, Vec<u8>)>, RecordError> {
        // A decompressor reports an error only once, so the error must be handled here.
        match self.stream.fill_buf() {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(self.unreadable(&error)),
        }
        if let Some(record) = self.whole_in_buffer() {
            return Ok(Some(record));
        }
        let Some(length) = self.length()? else {
            return Ok(None);
        };
        if length > RECORD_BYTES_MAX {
            return Err(self.failed(format!(
                "the record has {length} bytes, the limit is {RECORD_BYTES_MAX}"
            )));
        }
        let record = read_whole(&mut self.stream, length);
        let record = record.map_err(|error| self.unreadable(&error))?;
        let mut stated = [0; FOOTER_BYTES as usize];
        let footer = fill(&mut self.stream, &mut stated);
        let footer = footer.map_err(|error| self.unreadable(&error))?;
        let (read, wanted) = (record.len() as u64 + footer as u64, length + FOOTER_BYTES);
        if read < wanted {
            return Err(self.failed(format!(
                "the file is cut off: its last record lacks {} bytes",
                wanted - read
            )));
        }
        if stated != masked(crc32c::crc32c(&record)).to_le_bytes() {
            return Err(self.failed("the record is corrupt: its checksum differs".to_owned()));
        }
        let begin = self.offset_bytes;
        self.offset_bytes = begin.saturating_add(HEADER_BYTES + wanted);
        Ok(Some((begin, record)))
    }

    /// Returns the next record, if the stream's buffer holds all of it and its checksums are correct. Only
    /// the record's bytes are copied.
    fn whole_in_buffer(&mut self) -> Option<(u64, Vec<u8>)> {
        // The caller has filled the buffer already.
        let buffer = self.stream.fill_buf().ok()?;
        let (header, rest) = buffer.split_first_chunk::<{ HEADER_BYTES as usize }>()?;
        let (length, checksum) = header.split_first_chunk::<8>()?;
        if masked(crc32c::crc32c(length)).to_le_bytes() != checksum {
            return None;
        }
        let length = u64::from_le_bytes(*length);
        let (record, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        if rest.first_chunk() != Some(&masked(crc32c::crc32c(record)).to_le_bytes()) {
            return None;
        }
        let record = record.to_vec();
        let bytes = HEADER_BYTES + length + FOOTER_BYTES;
        // The cast is exact, because the record is in the buffer.
        self.stream.consume(bytes as usize);
        let begin = self.offset_bytes;
        self.offset_bytes = begin.saturating_add(bytes);
        Some((begin, record))
    }

    /// Reads the length of the next record; returns `None` at the end of the file.
    fn length(&mut self) -> Result<Option<u64>, RecordError> {
        let mut header = [0; HEADER_BYTES as usize];
        let read = fill(&mut self.stream, &mut header).map_err(|error| self.unreadable(&error))? as u64;
        if read == 0 {
            return Ok(None);
        }
        if read < HEADER_BYTES {
            return Err(self.failed(format!(
                "the file is cut off: the header of its last record lacks {} bytes",
                HEADER_BYTES - read
            )));
        }
        let (length, stated) = header.split_at(size_of::<u64>());
        if stated != masked(crc32c::crc32c(length)).to_le_bytes() {
            return Err(self.failed(
                "the checksum of a record's length differs: the file is corrupt, has another compression, or is not a TFRecord file"
                    .to_owned(),
            ));
        }
        Ok(length.try_into().ok().map(u64::from_le_bytes))
    }

    fn failed(&self, reason: String) -> RecordError {
        RecordError::damage(self.offset_bytes, reason)
    }

    fn unreadable(&self, error: &io::Error) -> RecordError {
        RecordError::unreadable(self.offset_bytes, error)
    }
}

/// A writer of TFRecord files. To write a compressed file, pass a compressor as the underlying writer.
#[derive(Debug)]
pub struct TfRecordWriter<W> {
    writer: W,
}

impl<W: Write> TfRecordWriter<W> {
    /// Writes records to `writer`, with three writes for each record. A slow writer should be buffered.
    pub fn new(writer: W) -> TfRecordWriter<W> {
        TfRecordWriter { writer }
    }

    /// Appends a record of any bytes.
    ///
    /// # Errors
    /// The error of the underlying writer. The error has the kind `InvalidInput` if the record is longer than
    /// [`RECORD_BYTES_MAX`], because readers refuse such a record.
    pub fn write(&mut self, record: &[u8]) -> io::Result<()> {
        let length = record.len() as u64;
        if length > RECORD_BYTES_MAX {
            let message = format!("the record has {length} bytes, the limit is {RECORD_BYTES_MAX}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let mut header = [0; HEADER_BYTES as usize];
        header[..8].copy_from_slice(&length.to_le_bytes());
        let checksum = masked(crc32c::crc32c(&header[..8]));
        header[8..].copy_from_slice(&checksum.to_le_bytes());
        self.writer.write_all(&header)?;
        self.writer.write_all(record)?;
        self.writer
            .write_all(&masked(crc32c::crc32c(record)).to_le_bytes())
    }

    /// Flushes the underlying writer and returns it.
    ///
    /// # Errors
    /// The error of the underlying writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.writer.flush()?;
        Ok(self.writer)
    }
}

fn masked(checksum: u32) -> u32 {
    checksum.rotate_right(15).wrapping_add(MASK_DELTA)
}
