//! The errors of a running pipeline, each with the party to blame.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;
use thiserror::Error;

use super::quarantine::FailedElement;

/// An error that a user's function returns.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The failure of a pipeline, with its place and the party to blame. The error is one pointer wide, so that
/// results stay small.
#[derive(Debug, Clone, Error)]
#[error("{0}")]
pub struct ExecError(Box<Failure>);

/// The content of an [`ExecError`].
#[derive(Debug, Clone)]
pub struct Failure {
    /// The party to blame for the failure.
    pub kind: ErrorKind,
    /// The operation or function that failed.
    pub op: String,
    /// A description of the fault and, if possible, of the remedy.
    pub message: String,
    /// The record that was processed when the failure occurred.
    pub origin: Option<Origin>,
    /// The position of the element in its source's order, if the position is known.
    pub position: Option<u64>,
    /// The place of the operation in the graphs as they were defined. The list has the nodes whose bodies
    /// contain the operation, from the outside, and then the operation's own node. The list is empty if the
    /// place is unknown.
    pub place: SmallVec<[u32; 2]>,
    /// The traceback that the user's function reported.
    pub traceback: Option<String>,
    /// The name of the failed element, if the job may leave the element out in further attempts.
    pub element: Option<FailedElement>,
    /// Whether the failure concerns only one element, or only the rest of one file. After a failure of one
    /// element or file, the operation continues with later elements at the next call.
    pub of_element: bool,
    /// The error of another library that caused this failure, for callers that know the type of the cause.
    pub cause: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// The limit of the positions that an error shows. A larger position is the number of an element within a
/// repetition or an expansion, which is a mixed number without a meaning for users. Positions of sources are
/// smaller.
const SHOWN_MAX: u64 = 1 << 48;

/// The party to blame for a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The author or the configuration of the dataset is to blame.
    Caller,
    /// A registered function is to blame: it returned an error or panicked.
    UserFunction,
    /// The data is to blame: a file is truncated or corrupt.
    Data,
    /// The data is to blame: the values of an element do not suit the operation.
    Value,
    /// The data is to blame: the dataset does not have a property that the caller stated, or a file was
    /// changed while the dataset was read.
    Precondition,
    /// The data is to blame: a named file or object does not exist.
    NotFound,
    /// A limit of memory, threads or files is to blame.
    Resource,
    /// Another process is to blame: the dispatcher, or a service that the pipeline reads.
    Peer,
    /// Nobody is to blame: the pipeline was cancelled.
    Cancelled,
    /// This crate itself is to blame.
    Internal,
}

impl ErrorKind {
    /// Returns whether the data or a user's function is to blame, so that a policy may leave the element out.
    pub(crate) fn is_of_element(self) -> bool {
        matches!(
            self,
            ErrorKind::UserFunction | ErrorKind::Data | ErrorKind::Value | ErrorKind::NotFound
        )
    }
}

/// The origin of a record. An origin is cheap to make and to clone, because all records of a file share their
/// common parts. The text of an origin is formatted only when it is read, which is rare.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The offset of the record in the file, in bytes.
    pub offset_bytes: u64,
    common: Arc<Common>,
    /// The number of the record, if records of the file are named by numbers.
    number: u64,
}

#[derive(Debug)]
struct Common {
    file: Arc<str>,
    key: Key,
}

/// The name of a record within its file.
#[derive(Debug)]
enum Key {
    /// A text that names a single record.
    Named(String),
    /// A noun that is followed by the number of a record, as in `record 3`.
    Numbered(&'static str),
}

/// A maker of origins for the numbered records of one file.
#[derive(Debug, Clone)]
pub(crate) struct Origins(Arc<Common>);

impl Origins {
    /// Returns a maker of origins for the records of `file`. `what` is the noun for one record.
    pub(crate) fn new(file: &Arc<str>, what: &'static str) -> Origins {
        Origins(Arc::new(Common {
            file: Arc::clone(file),
            key: Key::Numbered(what),
        }))
    }

    /// Returns the path of the file.
    pub(crate) fn file(&self) -> &Arc<str> {
        &self.0.file
    }

    /// Returns the origin of record `number`, which begins at `offset_bytes`.
    pub(crate) fn at(&self, offset_bytes: u64, number: u64) -> Origin {
        Origin {
            offset_bytes,
            common: Arc::clone(&self.0),
            number,
        }
    }
}

impl Origin {
    /// Returns the origin of the record named `key`, which begins at `offset_bytes` of `file`.
    pub fn new(file: &Arc<str>, offset_bytes: u64, key: impl Into<String>) -> Origin {
        let common = Common {
            file: Arc::clone(file),
            key: Key::Named(key.into()),
        };
        Origin {
            offset_bytes,
            common: Arc::new(common),
            number: 0,
        }
    }

    /// Returns the path of the file.
    pub fn file(&self) -> &Arc<str> {
        &self.common.file
    }

    /// Returns the name of the record within its file.
    pub fn key(&self) -> String {
        match &self.common.key {
            Key::Named(name) => name.clone(),
            Key::Numbered(what) => format!("{what} {}", self.number),
        }
    }
}

impl PartialEq for Origin {
    fn eq(&self, other: &Origin) -> bool {
        (self.file(), self.offset_bytes, self.key()) == (other.file(), other.offset_bytes, other.key())
    }
}

impl Eq for Origin {}

impl ExecError {
    /// Returns a failure of the operation or function `op`.
    pub fn new(kind: ErrorKind, op: impl Into<String>, message: impl Into<String>) -> ExecError {
        let (op, message) = (op.into(), message.into());
        ExecError(Box::new(Failure {
            kind,
            op,
            message,
            origin: None,
            position: None,
            place: SmallVec::new(),
            traceback: None,
            element: None,
            of_element: false,
            cause: None,
        }))
    }

    /// Returns the failure that ends a cancelled pipeline.
    pub fn cancelled(op: impl Into<String>) -> ExecError {
        ExecError::new(ErrorKind::Cancelled, op, "the task was cancelled")
    }

    /// Adds the record, unless the error already states a record.
    pub fn at(mut self, origin: Option<&Origin>) -> ExecError {
        if self.0.origin.is_none() {
            self.0.origin = origin.cloned();
        }
        self
    }

    /// Adds the element's position, unless the error already states a position.
    pub fn at_position(mut self, position: u64) -> ExecError {
        self.0.position.get_or_insert(position);
        self
    }

    /// Adds the name of the failed element, unless the error already names an element.
    pub(crate) fn of(mut self, element: FailedElement) -> ExecError {
        self.0.element.get_or_insert(element);
        self
    }

    /// Adds the number of elements that the split of the failed element had yielded before.
    pub(crate) fn note_yielded(&mut self, yielded: u64) {
        if let Some(element) = &mut self.0.element {
            element.yielded = yielded;
        }
    }

    /// Adds the node at which the failure occurred, unless the node is already known.
    pub(crate) fn stand_at(&mut self, node: u32) {
        if self.0.place.is_empty() {
            self.0.place.push(node);
        }
    }

    /// States that the failure occurred in the body of the operation at `node`.
    pub(crate) fn stand_within(mut self, node: u32) -> ExecError {
        self.0.place.insert(0, node);
        self
    }

    /// Adds the traceback that the function reported.
    pub fn with_traceback(mut self, traceback: impl Into<String>) -> ExecError {
        self.0.traceback = Some(traceback.into());
        self
    }

    /// Adds the error of another library that caused this failure.
    #[must_use]
    pub fn caused_by(mut self, cause: Arc<dyn std::error::Error + Send + Sync>) -> ExecError {
        self.0.cause = Some(cause);
        self
    }

    /// States that the operation continues after this failure.
    #[must_use]
    pub fn of_element(mut self) -> ExecError {
        self.0.of_element = true;
        self
    }

    /// Returns whether the failed element can be left out: the element, or the function called with the
    /// element, is to blame.
    pub fn is_passable(&self) -> bool {
        self.0.of_element && self.0.kind.is_of_element()
    }

    /// Returns the party to blame.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the full content of the error.
    pub fn failure(&self) -> &Failure {
        &self.0
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.op, self.message)?;
        if let Some(origin) = &self.origin {
            write!(f, "; in {origin}")?;
        } else if let Some(position) = self.position.filter(|position| *position < SHOWN_MAX) {
            write!(f, "; element at position {position}")?;
        }
        for (index, node) in self.place.iter().enumerate() {
            write!(f, "{}{node}", if index == 0 { "; operation " } else { "." })?;
        }
        Ok(())
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at byte {}, key {:?}",
            self.file(),
            self.offset_bytes,
            self.key()
        )
    }
}
