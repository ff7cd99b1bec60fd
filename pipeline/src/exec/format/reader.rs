//! The trait of all formats: a reader of one file, with its records and errors.

use std::io;
use std::sync::Arc;

use crate::exec::error::{ErrorKind, ExecError, Origin};
use crate::exec::value::Value;
#[cfg(feature = "records")]
use crate::record::RecordError;
use crate::storage::{Object, Storage, StorageError, blame};

/// Bytes of a file that are read ahead: enough for a disk or a network file system to stream.
pub(crate) const BUFFER_BYTES: usize = 256 << 10;

/// A reader of one file.
pub(crate) trait FileReader: Send {
    /// Returns the next record, or `None` at the end of the file. After an error of a record, later records
    /// can be read. After any other error, no more records can be read.
    fn record(&mut self) -> Result<Option<Record>, ReadError>;

    /// Returns the place of the next record, in a unit of the format's own. The place is a [`Start::place`]
    /// from which another reader can continue.
    fn place(&self) -> u64;

    /// Returns the bytes of memory that the reader holds while it is open.
    fn held_bytes(&self) -> usize {
        BUFFER_BYTES
    }
}

/// A factory of readers for one format.
pub(crate) trait OpenFile: Send {
    /// Opens the file at `path`, which is written as in a listing.
    fn opened(&self, storage: &Storage, path: &str) -> Result<Opened, ReadError> {
        Opened::new(storage, path)
    }

    /// Returns a reader of `file` that begins at `start`. The reader owns the file.
    fn open(&self, file: Opened, start: Start) -> Result<Box<dyn FileReader>, ReadError>;
}

impl<F> OpenFile for F
where
    F: Fn(Opened, Start) -> Result<Box<dyn FileReader>, ReadError> + Send,
{
    fn open(&self, file: Opened, start: Start) -> Result<Box<dyn FileReader>, ReadError> {
        self(file, start)
    }
}

/// An open file that is not read yet.
pub(crate) struct Opened {
    /// The path without secrets, for messages.
    pub(crate) path: Arc<str>,
    pub(crate) file: Object,
}

impl Opened {
    /// Opens the file at `path`.
    pub(crate) fn new(storage: &Storage, path: &str) -> Result<Opened, ReadError> {
        let file = storage.open(path)?;
        let path = Arc::clone(file.path());
        Ok(Opened { path, file })
    }
}

/// The place at which reading a file begins or continues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Start {
    /// The value of [`FileReader::place`] at the record.
    pub(crate) place: u64,
    /// The number of records passed, including records left out.
    pub(crate) passed: u64,
    /// The first byte of the wanted part: only records that begin at or after this byte, and before `end`,
    /// are read. Formats that are not [divisible](crate::graph::Format::is_divisible) read all records.
    pub(crate) begin: u64,
    /// The position from which on no wanted record begins, or `None` for the end of the file.
    pub(crate) end: Option<u64>,
}

/// One record of a file.
pub(crate) struct Record {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// A fault and the party to blame: the data, unless storage states otherwise.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) kind: ErrorKind,
    pub(crate) reason: String,
}

#[cfg(feature = "numpy")]
impl Fault {
    /// Adds the name of the part that has the fault.
    pub(crate) fn within(self, part: &str) -> Fault {
        Fault {
            reason: format!("{part}: {}", self.reason),
            ..self
        }
    }
}

impl From<String> for Fault {
    fn from(reason: String) -> Fault {
        Fault {
            kind: ErrorKind::Data,
            reason,
        }
    }
}

impl From<&str> for Fault {
    fn from(reason: &str) -> Fault {
        Fault::from(reason.to_owned())
    }
}

#[cfg(feature = "records")]
impl From<RecordError> for Fault {
    fn from(error: RecordError) -> Fault {
        Fault {
            kind: error.kind,
            reason: error.reason,
        }
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault {
            kind: blame(&error),
            reason: if error.kind() == io::ErrorKind::UnexpectedEof {
                format!("the file is truncated: {error}")
            } else {
                format!("cannot read the file: {error}")
            },
        }
    }
}

/// An error of a file or of one of its records.
#[derive(Debug)]
pub(crate) struct ReadError {
    /// Whether the error concerns only one record, so that later records can be read. Any other error
    /// concerns the rest of the file.
    pub(crate) is_record: bool,
    pub(crate) kind: ErrorKind,
    pub(crate) reason: String,
    pub(crate) origin: Option<Origin>,
}

impl From<StorageError> for ReadError {
    fn from(error: StorageError) -> ReadError {
        ReadError {
            kind: error.kind(),
            ..ReadError::unopened(error.to_string())
        }
    }
}

impl ReadError {
    /// Blames `cause` instead of the data if the data is not at fault. The error then concerns the rest of
    /// the file, and not one record.
    pub(crate) fn blaming(self, cause: &io::Error) -> ReadError {
        let kind = blame(cause);
        ReadError {
            is_record: self.is_record && kind == ErrorKind::Data,
            kind,
            ..self
        }
    }

    /// Returns the error of a file that cannot be opened. `reason` must name the file.
    pub(crate) fn unopened(reason: String) -> ReadError {
        ReadError {
            is_record: false,
            kind: ErrorKind::Data,
            reason,
            origin: None,
        }
    }

    /// Returns the error of a file that cannot be read from `origin` on.
    pub(crate) fn file(origin: Origin, fault: impl Into<Fault>) -> ReadError {
        let Fault { kind, reason } = fault.into();
        ReadError {
            is_record: false,
            kind,
            reason,
            origin: Some(origin),
        }
    }

    /// Returns the error of the record at `origin`. If the data is not at fault, the error also concerns the
    /// rest of the file.
    pub(crate) fn record(origin: Origin, fault: impl Into<Fault>) -> ReadError {
        let error = ReadError::file(origin, fault);
        ReadError {
            is_record: error.kind == ErrorKind::Data,
            ..error
        }
    }

    pub(crate) fn into_exec(self, op: &str) -> ExecError {
        ExecError::new(self.kind, op, self.reason).at(self.origin.as_ref())
    }
}
