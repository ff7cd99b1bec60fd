//! Why a file cannot be opened, listed or read, and who is to blame.

use std::fmt;
use std::io;
use std::ops::Range;

use crate::exec::ErrorKind;

/// A failure of storage: what was tried on which path, and why it did not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageError {
    kind: ErrorKind,
    tried: Tried,
    path: String,
    reason: String,
}

/// Action that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Tried {
    Open,
    List,
    #[cfg_attr(
        not(feature = "storage"),
        expect(dead_code, reason = "only stores fail in the middle in words of their own")
    )]
    Read(Range<u64>),
    /// To begin at all.
    Settings,
}

impl StorageError {
    /// `path` cannot be opened.
    pub(super) fn open(kind: ErrorKind, path: &str, reason: impl Into<String>) -> StorageError {
        StorageError::new(kind, Tried::Open, path, reason)
    }

    /// The files that `pattern` matches cannot be told.
    pub(super) fn list(kind: ErrorKind, pattern: &str, reason: impl Into<String>) -> StorageError {
        StorageError::new(kind, Tried::List, pattern, reason)
    }

    /// These bytes of `path` cannot be read.
    #[cfg(feature = "storage")]
    pub(super) fn read(
        kind: ErrorKind,
        path: &str,
        range: Range<u64>,
        reason: impl Into<String>,
    ) -> StorageError {
        StorageError::new(kind, Tried::Read(range), path, reason)
    }

    /// There is no storage with such settings.
    pub(super) fn settings(kind: ErrorKind, reason: impl Into<String>) -> StorageError {
        StorageError::new(kind, Tried::Settings, "", reason)
    }

    fn new(kind: ErrorKind, tried: Tried, path: &str, reason: impl Into<String>) -> StorageError {
        StorageError {
            kind,
            tried,
            path: path.to_owned(),
            reason: reason.into(),
        }
    }

    /// Returns the party to blame: the caller for an invalid path or missing rights; the data, as `NotFound`,
    /// for a missing file; a peer for a failing server; a resource for a limit of this machine.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The path or pattern.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the reason, without the path.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StorageError { path, reason, .. } = self;
        match &self.tried {
            Tried::Open => write!(f, "cannot open {path}: {reason}"),
            Tried::List => write!(f, "cannot list {path}: {reason}"),
            Tried::Read(Range { start, end }) => {
                write!(f, "cannot read bytes {start} to {end} of {path}: {reason}")
            }
            Tried::Settings => write!(f, "storage cannot be set up: {reason}"),
        }
    }
}

impl std::error::Error for StorageError {}

/// Converts to the error of `Read` and `Seek`. No decoder takes its kind for damaged data.
impl From<StorageError> for io::Error {
    fn from(error: StorageError) -> io::Error {
        io::Error::other(error)
    }
}

/// Returns the party to blame for a failed read of an [`Object`](super::Object): storage names it itself, and
/// for other errors it is the data.
pub(crate) fn blame(error: &io::Error) -> ErrorKind {
    let inner = error.get_ref();
    inner
        .and_then(|inner| inner.downcast_ref::<StorageError>())
        .map_or(ErrorKind::Data, StorageError::kind)
}
