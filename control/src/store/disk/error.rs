//! The reasons for which a work directory cannot be used: the party at fault, the file, and the remedy.

use std::io;
use std::path::{Path, PathBuf};

/// The error of a work directory that cannot hold a dispatcher's store.
#[derive(Debug, thiserror::Error)]
pub enum WorkDirError {
    /// The directory or a file in it cannot be created or read. The caller chose a wrong directory, or the
    /// machine is at fault.
    #[error(
        "cannot use {path}: {source}: check the permissions and the disk of the directory, or choose \
        another directory"
    )]
    Inaccessible {
        /// The path of the directory or file.
        path: PathBuf,
        /// The reason of the operating system.
        source: io::Error,
    },
    /// Another dispatcher uses the directory. The caller must choose another directory.
    #[error("another dispatcher works in {folder}: stop it, or give this one a directory of its own")]
    InUse {
        /// The path of the directory.
        folder: PathBuf,
    },
    /// The file is not a dispatcher's store. The caller must choose another directory.
    #[error("{file} is not a dispatcher's store ({reason}): move it away, or choose another directory")]
    Foreign {
        /// The path of the file.
        file: PathBuf,
        /// The reason for which the file is not a store.
        reason: String,
    },
    /// The file belongs to another user, who could have written it. The caller must choose another
    /// directory.
    #[error(
        "{file} belongs to user {owner}, and this dispatcher runs as user {user}: its keys and records \
        cannot be trusted; change its \
         owner if it is yours, or choose another directory"
    )]
    OfAnotherUser {
        /// The path of the file.
        file: PathBuf,
        /// The owner of the file.
        owner: u32,
        /// The user that the dispatcher runs as.
        user: u32,
    },
    /// A later version wrote the file. The caller must run that version, or choose another directory.
    #[error(
        "{file} was written by a later version of millstream (format {found}, this version reads {known}): run that \
         version, or move the file away to start with an empty store"
    )]
    Later {
        /// The path of the file.
        file: PathBuf,
        /// The format of the file.
        found: u64,
        /// The latest format that this version reads.
        known: u64,
    },
    /// The file was changed after it was written, by a fault of the disk or by another program.
    #[error(
        "{file} is damaged ({reason}), so nothing in it is trusted: put back a copy that was made while no dispatcher \
         ran, or move it away; the dispatcher then starts with an empty store, and its trainers start over"
    )]
    Damaged {
        /// The path of the file.
        file: PathBuf,
        /// The damage that was found.
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

    /// Converts an error of the database while the file is read.
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
