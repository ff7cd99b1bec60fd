//! `fixed_length`: the records of files whose records have one length. How they lie in a file is `crate::record`'s.

use std::sync::Arc;

use crate::graph::{self, Compression};
use crate::record::{FixedLengthReader, Stream, check_size};

use super::reader::{FileReader, OpenFile, Opened, ReadError, Record, Start, origin};
use super::tfrecord::record_of;

pub(super) struct FixedLength(pub(super) graph::FixedLength);

struct FixedLengthFile {
    path: Arc<str>,
    reader: FixedLengthReader<Stream>,
    passed: u64,
}

impl OpenFile for FixedLength {
    fn open(&self, file: Opened, start: Start) -> Result<Box<dyn FileReader>, ReadError> {
        if self.0.compression == Compression::None {
            check_size(&self.0, file.file.len())
                .map_err(|error| ReadError::file(origin(&file.path, 0, "record 1"), error.reason))?;
        }
        let Opened { path, file } = file;
        let stream = Stream::new(file, self.0.compression, start.place);
        let stream = stream
            .map_err(|error| ReadError::unopened(format!("cannot open {path}: {error}")).blaming(&error))?;
        Ok(Box::new(FixedLengthFile {
            path,
            reader: FixedLengthReader::new(stream, self.0, start.place),
            passed: start.passed,
        }))
    }
}

impl FileReader for FixedLengthFile {
    fn record(&mut self) -> Result<Option<Record>, ReadError> {
        let record = self.reader.record();
        record_of(&self.path, &mut self.passed, record)
    }

    fn place(&self) -> u64 {
        self.reader.offset_bytes()
    }
}
