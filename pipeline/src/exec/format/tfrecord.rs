//! The format `tfrecord`: the records of TFRecord files. `crate::record` defines the layout of these files.

use crate::exec::error::Origins;
use crate::exec::value::{Tensor, Value};
use crate::graph;
use crate::record::{RecordError, Stream, TfRecordReader};

use super::reader::{FileReader, OpenFile, Opened, ReadError, Record, Start};

pub(crate) struct TfRecord(pub(crate) graph::TfRecord);

struct TfRecordFile {
    origins: Origins,
    reader: TfRecordReader<Stream>,
    passed: u64,
}

impl OpenFile for TfRecord {
    fn open(&self, file: Opened, start: Start) -> Result<Box<dyn FileReader>, ReadError> {
        let Opened { path, file } = file;
        let stream = Stream::new(file, self.0.compression, start.place);
        let stream = stream
            .map_err(|error| ReadError::unopened(format!("cannot open {path}: {error}")).blaming(&error))?;
        Ok(Box::new(TfRecordFile {
            origins: Origins::new(&path, "record"),
            reader: TfRecordReader::new(stream, start.place),
            passed: start.passed,
        }))
    }
}

impl FileReader for TfRecordFile {
    fn record(&mut self) -> Result<Option<Record>, ReadError> {
        let record = self.reader.record();
        record_of(&self.origins, &mut self.passed, record)
    }

    fn place(&self) -> u64 {
        self.reader.offset_bytes()
    }
}

/// Converts the outcome of reading a record file to a record with its origin, or to an error.
#[inline]
pub(crate) fn record_of(
    origins: &Origins,
    passed: &mut u64,
    record: Result<Option<(u64, Vec<u8>)>, RecordError>,
) -> Result<Option<Record>, ReadError> {
    let number = passed.saturating_add(1);
    let (begin, record) = match record {
        Ok(Some(record)) => record,
        Ok(None) => return Ok(None),
        Err(error) => {
            return Err(ReadError::file(origins.at(error.offset_bytes, number), error));
        }
    };
    *passed = number;
    Ok(Some(Record {
        value: Value::from_buf([Tensor::bytes(record)]),
        origin: origins.at(begin, number),
    }))
}
