//! What can go wrong while a pipeline runs, and who is to blame.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;
use thiserror::Error;

/// Whatever a user's function returns as an error.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A failed pipeline: what failed, where, and whose fault it is. One pointer wide, so that results stay small.
#[derive(Debug, Clone, Error)]
#[error("{0}")]
pub struct ExecError(Box<Failure>);

/// The content of an [`ExecError`].
#[derive(Debug, Clone)]
pub struct Failure {
    /// Who is to blame.
    pub kind: ErrorKind,
    /// The operation or function that failed.
    pub op: String,
    /// What was wrong and, where it can be said, what to do.
    pub message: String,
    /// The record it was working on.
    pub origin: Option<Arc<Origin>>,
    /// The position of the element in its source's order, where one is known.
    pub position: Option<u64>,
    /// Where the operation stands: the nodes of those whose bodies it is in, from the outside, and its own, in the graphs as
    /// they were defined. Empty where nobody knows.
    pub place: SmallVec<[u32; 2]>,
    /// The user function's own account of how it got there.
    pub traceback: Option<String>,
    /// Whether it is one element's, or the rest of one file's: the operation goes on behind it when it is asked again.
    pub of_element: bool,
}

/// Who is to blame for a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Whoever wrote or configured the dataset.
    Caller,
    /// A registered function: it returned an error or panicked.
    UserFunction,
    /// The data: a file is missing, truncated or corrupt.
    Data,
    /// A limit of memory, threads or files.
    Resource,
    /// Another process: the dispatcher, or a service that is read.
    Peer,
    /// Nobody: the pipeline was told to stop.
    Cancelled,
    /// This crate.
    Internal,
}

/// Where a record came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The file.
    pub file: Arc<str>,
    /// Where in the file it starts, in bytes.
    pub offset_bytes: u64,
    /// Its key in the file.
    pub key: RecordKey,
}

/// What a record is called in its file.
#[derive(Debug, Clone)]
pub enum RecordKey {
    /// By a text.
    Named(String),
    /// By what it is and its number: `record 3`. Written out where somebody reads it, since few are ever read.
    Numbered(&'static str, u64),
}

impl From<String> for RecordKey {
    fn from(name: String) -> RecordKey {
        RecordKey::Named(name)
    }
}

impl From<&str> for RecordKey {
    fn from(name: &str) -> RecordKey {
        RecordKey::Named(name.to_owned())
    }
}

impl PartialEq for RecordKey {
    fn eq(&self, other: &RecordKey) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for RecordKey {}

impl fmt::Display for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordKey::Named(name) => f.write_str(name),
            RecordKey::Numbered(what, number) => write!(f, "{what} {number}"),
        }
    }
}

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
        }))
    }

    /// The failure that ends a pipeline which was told to stop.
    pub fn cancelled(op: impl Into<String>) -> ExecError {
        ExecError::new(ErrorKind::Cancelled, op, "the task was cancelled")
    }

    /// States the record, unless one is stated already.
    pub fn at(mut self, origin: Option<&Arc<Origin>>) -> ExecError {
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

    /// States that the operation goes on behind what failed.
    #[must_use]
    pub fn of_element(mut self) -> ExecError {
        self.0.of_element = true;
        self
    }

    /// Whether it can be passed over: the fault of one element, or of the function that was called with it.
    pub fn is_passable(&self) -> bool {
        self.0.of_element && matches!(self.0.kind, ErrorKind::Data | ErrorKind::UserFunction)
    }

    /// Who is to blame.
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
            self.file,
            self.offset_bytes,
            self.key.to_string()
        )
    }
}
