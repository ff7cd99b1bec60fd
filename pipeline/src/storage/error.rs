//! The error of a file that cannot be opened, listed or read.

use std::fmt;
use std::io;
use std::ops::Range;

use super::shown::without_secrets;
use crate::exec::ErrorKind;

/// A failure of storage: the attempted action, the path, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageError {
    kind: ErrorKind,
    tried: Tried,
    path: String,
    reason: String,
}

/// The action that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Tried {
    Open,
    List,
    #[cfg_attr(
        not(feature = "storage"),
        expect(dead_code, reason = "only stores report errors of reads in this form")
    )]
    Read(Range<u64>),
    /// The setup of the storage.
    Settings,
}

impl StorageError {
    /// Makes the error of a file that cannot be opened.
    pub(super) fn open(kind: ErrorKind, path: &str, reason: impl Into<String>) -> StorageError {
        StorageError::new(kind, Tried::Open, path, reason)
    }

    /// Makes the error of a pattern whose files cannot be listed.
    pub(super) fn list(kind: ErrorKind, pattern: &str, reason: impl Into<String>) -> StorageError {
        StorageError::new(kind, Tried::List, pattern, reason)
    }

    /// Makes the error of a byte range that cannot be read.
    #[cfg(feature = "storage")]
    pub(super) fn read(
        kind: ErrorKind,
        path: &str,
        range: Range<u64>,
        reason: impl Into<String>,
    ) -> StorageError {
        StorageError::new(kind, Tried::Read(range), path, reason)
    }

    /// Makes the error of settings with which no storage can be set up.
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

    /// Returns the party to blame. `Caller` means an invalid path or missing rights, and `NotFound` a missing
    /// file. `Peer` means a failing server, and `Resource` a limit of this machine.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the path or pattern of the failed action.
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
        let (path, reason) = (without_secrets(&self.path), without_secrets(&self.reason));
        match &self.tried {
            Tried::Open => write!(f, "cannot open {path}: {reason}"),
            Tried::List => write!(f, "cannot list {path}: {reason}"),
            Tried::Read(Range { start, end }) => {
                write!(f, "cannot read bytes {start} to {end} of {path}: {reason}")
            }
            Tried::Settings => write!(f, "cannot set up storage: {reason}"),
        }
    }
}

impl std::error::Error for StorageError {}

/// Converts to the error of `Read` and `Seek`. The kind `Other` ensures that no decoder treats the failure as
/// damaged data.
impl From<StorageError> for io::Error {
    fn from(error: StorageError) -> io::Error {
        io::Error::other(error)
    }
}

/// Returns the party to blame for a failed read of an [`Object`](super::Object). A [`StorageError`] names the
/// party itself; every other error is a fault of the data.
pub(crate) fn blame(error: &io::Error) -> ErrorKind {
    let inner = error.get_ref();
    inner
        .and_then(|inner| inner.downcast_ref::<StorageError>())
        .map_or(ErrorKind::Data, StorageError::kind)
}
