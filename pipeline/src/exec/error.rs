//! Errors of a running pipeline, and the party to blame for each.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;
use thiserror::Error;

/// Whatever a user's function returns as an error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A failed pipeline: what failed, where, and whose fault it is. One pointer wide, so that results stay
/// small.
#[derive(Debug, Clone, Error)]
#[error("{0}")]
pub struct ExecError(Box<Failure>);

/// The content of an [`ExecError`].
#[derive(Debug, Clone)]
pub struct Failure {
    /// Party to blame.
    pub kind: ErrorKind,
    /// The operation or function that failed.
    pub op: String,
    /// Description of the fault and, if possible, of the remedy.
    pub message: String,
    /// The record it was working on.
    pub origin: Option<Origin>,
    /// The position of the element in its source's order, where one is known.
    pub position: Option<u64>,
    /// Position of the operation: the nodes whose bodies contain it, from the outside, then its own node, in
    /// the graphs as they were defined. Empty if unknown.
    pub place: SmallVec<[u32; 2]>,
    /// The user function's own account of how it got there.
    pub traceback: Option<String>,
    /// Whether it is one element's, or the rest of one file's: the operation goes on behind it when it is
    /// asked again.
    pub of_element: bool,
    /// The error of another library that this one stands for, for callers that know its type.
    pub cause: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// Party to blame for a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The author or the configuration of the dataset.
    Caller,
    /// A registered function: it returned an error or panicked.
    UserFunction,
    /// The data: a file is truncated or corrupt.
    Data,
    /// The data too: a file or an object that is named is not there.
    NotFound,
    /// A limit of memory, threads or files.
    Resource,
    /// Another process: the dispatcher, or a service that is read.
    Peer,
    /// Nobody: the pipeline was told to stop.
    Cancelled,
    /// This crate.
    Internal,
}

/// Origin of a record. It is cheap to make and to clone: records of a file share what they have in common,
/// and the text is written only when it is read, which is rare.
#[derive(Debug, Clone)]
pub struct Origin {
    /// Offset of the record in the file, in bytes.
    pub offset_bytes: u64,
    common: Arc<Common>,
    /// The number, if that is what it is called by.
    number: u64,
}

#[derive(Debug)]
struct Common {
    file: Arc<str>,
    key: Key,
}

/// Names of records within their file.
#[derive(Debug)]
enum Key {
    /// The one there is, by a text.
    Named(String),
    /// By what they are and their numbers: `record 3`.
    Numbered(&'static str),
}

/// Makes the origins of a file's records, which have numbers.
#[derive(Debug, Clone)]
pub(crate) struct Origins(Arc<Common>);

impl Origins {
    /// Returns the origins of the records of `file`, each of which is a `what`.
    pub(crate) fn new(file: &Arc<str>, what: &'static str) -> Origins {
        Origins(Arc::new(Common {
            file: Arc::clone(file),
            key: Key::Numbered(what),
        }))
    }

    /// The file.
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
    /// The record called `key`, which begins at `offset_bytes` of `file`.
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

    /// The file.
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
    /// A failure of `op`.
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
            of_element: false,
            cause: None,
        }))
    }

    /// The failure that ends a pipeline which was told to stop.
    pub fn cancelled(op: impl Into<String>) -> ExecError {
        ExecError::new(ErrorKind::Cancelled, op, "the task was cancelled")
    }

    /// States the record, unless one is stated already.
    pub fn at(mut self, origin: Option<&Origin>) -> ExecError {
        if self.0.origin.is_none() {
            self.0.origin = origin.cloned();
        }
        self
    }

    /// States the element's position, unless one is stated already.
    pub fn at_position(mut self, position: u64) -> ExecError {
        self.0.position.get_or_insert(position);
        self
    }

    /// States the node at which it happened, unless it is known.
    pub(crate) fn stand_at(&mut self, node: u32) {
        if self.0.place.is_empty() {
            self.0.place.push(node);
        }
    }

    /// States that it happened in the body of the operation at `node`.
    pub(crate) fn stand_within(mut self, node: u32) -> ExecError {
        self.0.place.insert(0, node);
        self
    }

    /// States the function's own account.
    pub fn with_traceback(mut self, traceback: impl Into<String>) -> ExecError {
        self.0.traceback = Some(traceback.into());
        self
    }

    /// States the error of another library that this one stands for.
    #[must_use]
    pub fn caused_by(mut self, cause: Arc<dyn std::error::Error + Send + Sync>) -> ExecError {
        self.0.cause = Some(cause);
        self
    }

    /// States that the operation goes on behind what failed.
    #[must_use]
    pub fn of_element(mut self) -> ExecError {
        self.0.of_element = true;
        self
    }

    /// Returns whether it can be passed over: the fault of one element, or of the function that was called
    /// with it.
    pub fn is_passable(&self) -> bool {
        self.0.of_element
            && matches!(
                self.0.kind,
                ErrorKind::Data | ErrorKind::NotFound | ErrorKind::UserFunction
            )
    }

    /// Returns the party to blame.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Everything that is known.
    pub fn failure(&self) -> &Failure {
        &self.0
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.op, self.message)?;
        if let Some(origin) = &self.origin {
            write!(f, "; in {origin}")?;
        } else if let Some(position) = self.position {
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
