//! The handle through which files are opened and listed.

use crate::exec::{Cancel, ErrorKind};

use super::error::StorageError;
use super::local;
use super::object::Object;

/// Files that a pattern may match.
pub const FILES_MAX: usize = 1 << 20;

/// Opens and lists files. Cheap to clone; clones are the same storage.
#[derive(Debug, Clone, Default)]
pub struct Storage {
    /// Ends waiting.
    cancel: Option<Cancel>,
}

/// A file that a pattern matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// What [`Storage::open`] opens it by.
    pub path: String,
    /// Its size, if that could be told.
    pub size_bytes: Option<u64>,
}

impl Storage {
    /// The same storage, for somebody who stops waiting when `cancel` is raised.
    #[must_use]
    pub fn until(&self, cancel: &Cancel) -> Storage {
        Storage {
            cancel: Some(cancel.clone()),
        }
    }

    /// Opens the file at `path`. Blocks.
    ///
    /// # Errors
    /// [`StorageError`]: there is none, or it may not be read.
    pub fn open(&self, path: &str) -> Result<Object, StorageError> {
        self.check()
            .map_err(|reason| StorageError::open(ErrorKind::Cancelled, path, reason))?;
        local::open(path)
    }

    /// The files that the glob `pattern` matches, sorted by the bytes of their paths; at least one and at most [`FILES_MAX`].
    /// Directories are not files. Blocks.
    ///
    /// # Errors
    /// [`StorageError`]: it is no pattern, matches nothing or too much, or what it names cannot be listed.
    pub fn list(&self, pattern: &str) -> Result<Vec<Listed>, StorageError> {
        self.check()
            .map_err(|reason| StorageError::list(ErrorKind::Cancelled, pattern, reason))?;
        local::list(pattern)
    }

    fn check(&self) -> Result<(), &'static str> {
        match &self.cancel {
            Some(cancel) if cancel.is_cancelled() => Err("the task was cancelled"),
            Some(_) | None => Ok(()),
        }
    }
}
