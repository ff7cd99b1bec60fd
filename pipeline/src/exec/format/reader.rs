//! The trait of all formats: a reader of one file, and what it yields or fails with.

use std::io;
use std::sync::Arc;

use crate::exec::error::{ErrorKind, ExecError, Origin};
use crate::exec::value::Value;
use crate::storage::{Object, Storage, StorageError, blame};

/// Read-ahead of a file: large enough that a disk or a network file system streams.
pub(crate) const BUFFER_BYTES: usize = 256 << 10;

/// A reader of one file.
pub(crate) trait FileReader: Send {
    /// The next record, `None` at the end of the file. After an error of a record the ones behind it can be
    /// read, after any other error nothing.
    fn record(&mut self) -> Result<Option<Record>, ReadError>;

    /// Returns the place of the next record, in a measure of the format's own: a [`Start::place`] from which
    /// another reader continues.
    fn place(&self) -> u64;

    /// The memory it holds while it is open.
    fn held_bytes(&self) -> usize {
        BUFFER_BYTES
    }
}

/// Makes readers of one format.
pub(crate) trait OpenFile: Send {
    /// Opens the file at `path`, as a listing writes it.
    fn opened(&self, storage: &Storage, path: &str) -> Result<Opened, ReadError> {
        Opened::new(storage, path)
    }

    /// A reader of `file`, which is its own, that begins at `start`.
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

/// A file to be read.
pub(crate) struct Opened {
    /// Path without secrets, for messages.
    pub(crate) path: Arc<str>,
    pub(crate) file: Object,
}

impl Opened {
    /// Opens `path`.
    pub(crate) fn new(storage: &Storage, path: &str) -> Result<Opened, ReadError> {
        let file = storage.open(path)?;
        let path = Arc::clone(file.path());
        Ok(Opened { path, file })
    }
}

/// Place at which a file is continued.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Start {
    /// Value of [`FileReader::place`] at that record.
    pub(crate) place: u64,
    /// Records that were passed, read or not.
    pub(crate) passed: u64,
    /// Only records that begin at this byte or behind it, and before `end`, are wanted. Of formats that are
    /// not [divisible](crate::graph::Format::is_divisible) all are.
    pub(crate) begin: u64,
    /// Position from which on no wanted record begins; `None` for the end of the file.
    pub(crate) end: Option<u64>,
}

/// One record of a file.
pub(crate) struct Record {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// The fault, and the party to blame: the data, unless storage says otherwise.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) kind: ErrorKind,
    pub(crate) reason: String,
}

#[cfg(feature = "numpy")]
impl Fault {
    /// Adds the part of the file that the fault is in.
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

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        Fault {
            kind: blame(&error),
            reason: if error.kind() == io::ErrorKind::UnexpectedEof {
                format!("the file is cut off: {error}")
            } else {
                format!("cannot read the file: {error}")
            },
        }
    }
}

/// Error at a file or at one of its records.
#[derive(Debug)]
pub(crate) struct ReadError {
    /// Whether it is one record, so that the ones behind it can be read; else it is all that is left of the
    /// file.
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
    /// Blames `cause` instead of the data if the data are not at fault; then the error is not about one
    /// record either.
    pub(crate) fn blaming(self, cause: &io::Error) -> ReadError {
        let kind = blame(cause);
        ReadError {
            is_record: self.is_record && kind == ErrorKind::Data,
            kind,
            ..self
        }
    }

    /// A file that cannot be opened, as `reason` says, which names it.
    pub(crate) fn unopened(reason: String) -> ReadError {
        ReadError {
            is_record: false,
            kind: ErrorKind::Data,
            reason,
            origin: None,
        }
    }

    /// A file of which nothing can be read from `origin` on.
    pub(crate) fn file(origin: Origin, fault: impl Into<Fault>) -> ReadError {
        let Fault { kind, reason } = fault.into();
        ReadError {
            is_record: false,
            kind,
            reason,
            origin: Some(origin),
        }
    }

    /// The record at `origin`; everything behind it too, if it is not the data's fault.
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
