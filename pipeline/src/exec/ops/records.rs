//! `tfrecord` and `fixed_length`: the records of files, one file after the other. How records lie in a file is
//! `crate::record`'s.

use std::fs::File;
use std::sync::Arc;

use crate::exec::cancel::Cancel;
use crate::exec::error::{ErrorKind, ExecError, Origin};
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::random::mix;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::token;
use crate::exec::value::{Tensor, Value};
use crate::graph::{self, Compression};
use crate::record::{FixedLengthReader, RecordError, Stream, TfRecordReader, check_size};

use super::path::path_of;

pub(crate) struct Records {
    records: graph::Records,
    input: Input,
    cancel: Cancel,
    file: Option<RecordFile>,
}

/// A file being read.
struct RecordFile {
    op: &'static str,
    /// The element whose path it is.
    outer: Item,
    path: Arc<str>,
    reader: Reader,
    /// Records read.
    passed: u64,
}

enum Reader {
    TfRecord(TfRecordReader<Stream>),
    FixedLength(FixedLengthReader<Stream>),
}

impl Records {
    pub(crate) fn new(records: graph::Records, input: Input, cancel: Cancel) -> Records {
        Records {
            records,
            input,
            cancel,
            file: None,
        }
    }
}

impl Iterate for Records {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        loop {
            self.cancel.check(self.records.op_name())?;
            let Some(file) = &mut self.file else {
                let Some(outer) = self.input.next()? else {
                    return Ok(None);
                };
                self.file = Some(RecordFile::open(self.records, outer, 0, 0)?);
                continue;
            };
            match file.record() {
                Ok(Some(item)) => return Ok(Some(item)),
                Ok(None) => self.file = None,
                Err(error) => {
                    token::abandon(&file.outer.marks);
                    return Err(error);
                }
            }
        }
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.file = None;
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin(self.records.op_name())?;
        state.flag(self.file.is_some())?;
        if let Some(file) = &self.file {
            state.item(&file.outer)?;
            state.number(file.reader.offset_bytes())?;
            state.number(file.passed)?;
        }
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin(self.records.op_name())?;
        if state.flag()? {
            let (outer, offset_bytes) = (state.item()?, state.number()?);
            let passed = state.number()?;
            self.file = Some(RecordFile::open(self.records, outer, offset_bytes, passed)?);
        }
        self.input.restore(state)
    }
}

impl RecordFile {
    /// Opens the file whose path `outer` is, to go on behind `passed` records of `offset_bytes` bytes.
    fn open(
        records: graph::Records,
        outer: Item,
        offset_bytes: u64,
        passed: u64,
    ) -> Result<RecordFile, ExecError> {
        let op = records.op_name();
        let opened = path_of(op, &outer).map(Arc::<str>::from).and_then(|path| {
            let reader = Reader::open(records, &path, offset_bytes)?;
            Ok((path, reader))
        });
        let (path, reader) = opened.inspect_err(|_| token::abandon(&outer.marks))?;
        Ok(RecordFile {
            op,
            outer,
            path,
            reader,
            passed,
        })
    }

    /// The next record, `None` at the end of the file.
    fn record(&mut self) -> Result<Option<Item>, ExecError> {
        let record = match &mut self.reader {
            Reader::TfRecord(reader) => reader.record(),
            Reader::FixedLength(reader) => reader.record(),
        };
        let Some((begin, record)) = record.map_err(|error| self.failed(error))? else {
            return Ok(None);
        };
        let position = mix(self.outer.position, self.passed);
        self.passed = self.passed.saturating_add(1);
        Ok(Some(Item {
            value: Value::from_buf([Tensor::bytes(record)]),
            marks: self.outer.marks.clone(),
            position,
            origin: Some(origin(&self.path, begin, self.passed)),
        }))
    }

    fn failed(&self, error: RecordError) -> ExecError {
        let at = origin(&self.path, error.offset_bytes, self.passed.saturating_add(1));
        ExecError::new(ErrorKind::Data, self.op, error.reason).at(Some(&at))
    }
}

impl Reader {
    fn open(records: graph::Records, path: &Arc<str>, offset_bytes: u64) -> Result<Reader, ExecError> {
        let op = records.op_name();
        let failed = |error| ExecError::new(ErrorKind::Data, op, format!("cannot open {path}: {error}"));
        let file = File::open(&**path).map_err(failed)?;
        if let (graph::Records::FixedLength(layout), Compression::None) = (&records, records.compression()) {
            let file_bytes = file.metadata().map_err(failed)?.len();
            check_size(layout, file_bytes).map_err(|error| {
                ExecError::new(ErrorKind::Data, op, error.reason).at(Some(&origin(path, 0, 1)))
            })?;
        }
        let stream = Stream::new(file, records.compression(), offset_bytes).map_err(failed)?;
        Ok(match records {
            graph::Records::TfRecord(_) => Reader::TfRecord(TfRecordReader::new(stream, offset_bytes)),
            graph::Records::FixedLength(layout) => {
                Reader::FixedLength(FixedLengthReader::new(stream, layout, offset_bytes))
            }
        })
    }

    /// Where the next record begins.
    fn offset_bytes(&self) -> u64 {
        match self {
            Reader::TfRecord(reader) => reader.offset_bytes(),
            Reader::FixedLength(reader) => reader.offset_bytes(),
        }
    }
}

/// Record `number`, from 1 on, which begins at `offset_bytes`.
fn origin(path: &Arc<str>, offset_bytes: u64, number: u64) -> Arc<Origin> {
    Arc::new(Origin {
        file: Arc::clone(path),
        offset_bytes,
        key: format!("record {number}"),
    })
}
