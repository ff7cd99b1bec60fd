//! Why a work directory cannot be used: who is to blame, which file, what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Why a dispatcher has no store in this directory.
#[derive(Debug, thiserror::Error)]
pub enum WorkDirError {
    /// The directory or a file in it cannot be made or read. The caller's choice of directory, or the
    /// machine.
    #[error(
        "cannot use {path}: {source}: check the directory's permissions and its disk, or choose another one"
    )]
    Inaccessible {
        /// The directory or file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// One dispatcher at a time. The caller's.
    #[error("another dispatcher works in {folder}: stop it, or give this one a directory of its own")]
    InUse {
        /// The directory.
        folder: PathBuf,
    },
    /// Something else lies where the store should. The caller's.
    #[error("{file} is not a dispatcher's store ({reason}): move it away, or choose another directory")]
    Foreign {
        /// The file.
        file: PathBuf,
        /// The sign by which the damage shows.
        reason: String,
    },
    /// Another user could have written it. The caller's.
    #[error(
        "{file} belongs to user {owner}, and this dispatcher runs as user {user}: its keys and records cannot be trusted. Change its \
         owner if it is yours, or choose another directory"
    )]
    OfAnotherUser {
        /// The file.
        file: PathBuf,
        /// The file's owner.
        owner: u32,
        /// The user that the dispatcher runs as.
        user: u32,
    },
    /// A later version wrote it. The caller's.
    #[error(
        "{file} was written by a later version of millstream (format {found}, this version reads {known}): run that \
         version, or move the file away to start with an empty store"
    )]
    Later {
        /// The file.
        file: PathBuf,
        /// The format it states.
        found: u64,
        /// The latest format that this version reads.
        known: u64,
    },
    /// The file is not as it was written, by a fault of the disk or by another program.
    #[error(
        "{file} is damaged ({reason}), so nothing in it is trusted: put back a copy that was made while no dispatcher \
         ran, or move it away; the dispatcher then starts with an empty store, and its trainers start over"
    )]
    Damaged {
        /// The file.
        file: PathBuf,
        /// The fault.
        reason: String,
    },
}

impl WorkDirError {
    pub(super) fn inaccessible(path: &Path) -> impl FnOnce(io::Error) -> WorkDirError {
        |source| WorkDirError::Inaccessible {
            path: path.to_owned(),
            source,
        }
    }

    pub(super) fn foreign(file: &Path, reason: impl Into<String>) -> WorkDirError {
        WorkDirError::Foreign {
            file: file.to_owned(),
            reason: reason.into(),
        }
    }

    pub(super) fn damaged(file: &Path, reason: impl Into<String>) -> WorkDirError {
        WorkDirError::Damaged {
            file: file.to_owned(),
            reason: reason.into(),
        }
    }

    /// An error of the database while the file is read.
    pub(super) fn of_database(file: &Path, error: impl Into<redb::Error>) -> WorkDirError {
        let error: redb::Error = error.into();
        if matches!(
            error,
            redb::Error::DatabaseAlreadyOpen | redb::Error::LockProtocolMismatch
        ) {
            let folder = file.parent().unwrap_or(file).to_owned();
            return WorkDirError::InUse { folder };
        }
        let ends_early = [io::ErrorKind::UnexpectedEof, io::ErrorKind::InvalidData];
        let reason = error.to_string();
        if let redb::Error::Io(source) = error
            && !ends_early.contains(&source.kind())
        {
            return WorkDirError::inaccessible(file)(source);
        }
        WorkDirError::damaged(file, reason)
    }
}
