//! The format `fixed_length`: the records of files whose records have one length. `crate::record` defines the
//! layout of these files.

use crate::exec::error::{Origin, Origins};
use crate::graph::{self, Compression};
use crate::record::{FixedLengthReader, Stream, check_size};

use super::reader::{FileReader, OpenFile, Opened, ReadError, Record, Start};
use super::tfrecord::record_of;

pub(crate) struct FixedLength(pub(crate) graph::FixedLength);

struct FixedLengthFile {
    origins: Origins,
    reader: FixedLengthReader<Stream>,
    passed: u64,
    /// The number of records that are left in the part being read, or `None` to read all records.
    left: Option<u64>,
}

impl OpenFile for FixedLength {
    fn open(&self, file: Opened, start: Start) -> Result<Box<dyn FileReader>, ReadError> {
        if self.0.compression == Compression::None {
            check_size(&self.0, file.file.len())
                .map_err(|error| ReadError::file(Origin::new(&file.path, 0, "record 1"), error))?;
        }
        let (place, left) = self.part(start, file.file.len());
        let Opened { path, file } = file;
        let stream = Stream::new(file, self.0.compression, place);
        let stream = stream
            .map_err(|error| ReadError::unopened(format!("cannot open {path}: {error}")).blaming(&error))?;
        Ok(Box::new(FixedLengthFile {
            origins: Origins::new(&path, "record"),
            reader: FixedLengthReader::new(stream, self.0, place),
            passed: start.passed,
            left,
        }))
    }
}

impl FixedLength {
    /// Returns the position at which reading begins for `start` in a file of `size` bytes, and the number of
    /// records to read. The number is `None` if all records are read.
    fn part(&self, start: Start, size: u64) -> (u64, Option<u64>) {
        let Some(end) = start.end else {
            return (start.place, None);
        };
        let graph::FixedLength {
            record_bytes,
            header_bytes,
            footer_bytes,
            ..
        } = self.0;
        let records = size.saturating_sub(header_bytes + footer_bytes) / record_bytes;
        let before = |byte: u64| {
            byte.saturating_sub(header_bytes)
                .div_ceil(record_bytes)
                .min(records)
        };
        let (first, last) = (before(start.begin), before(end));
        // Reading from the start of the file skips the header.
        let begin = if first == 0 {
            0
        } else {
            header_bytes + first * record_bytes
        };
        let place = if start.place == 0 { begin } else { start.place };
        (
            place,
            Some(last.saturating_sub(first).saturating_sub(start.passed)),
        )
    }
}

impl FileReader for FixedLengthFile {
    fn record(&mut self) -> Result<Option<Record>, ReadError> {
        if self.left == Some(0) {
            return Ok(None);
        }
        self.left = self.left.map(|left| left - 1);
        let record = self.reader.record();
        record_of(&self.origins, &mut self.passed, record)
    }

    fn place(&self) -> u64 {
        self.reader.offset_bytes()
    }
}
