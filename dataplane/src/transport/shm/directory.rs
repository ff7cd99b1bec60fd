//! Prepares the configured directory of workers' sockets. The directory must belong to this user alone, and
//! leftover sockets of dead workers are removed (D9.6).
//!
//! The module does not know the readers that connect.

use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use rustix::process::geteuid;
use thiserror::Error;

use super::address;

/// The suffix of the name of a socket on which no process listens yet.
pub(super) const UNFINISHED_SUFFIX: &str = ".new";

/// The age from which on an unfinished socket counts as left over. A live worker uses the unfinished name for
/// microseconds only.
const UNFINISHED_AGE_MAX: Duration = Duration::from_secs(60);

/// Maximum number of directory entries checked when a worker starts. The limit is many times the number of
/// workers of a host, and does not delay the start.
const SWEPT_ENTRIES_MAX: usize = 10_000;

/// The reason for which a directory cannot be used for sockets. The owner of the directory must correct it.
#[derive(Debug, Error)]
pub enum DirectoryError {
    /// The directory cannot be created or examined.
    #[error("{}: {error}", path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The path is not a directory.
    #[error("expected a directory at {}, found another kind of file or a symbolic link", .0.display())]
    NoDirectory(PathBuf),
    /// The directory belongs to another user.
    #[error("{} belongs to user {owner}, expected user {ours}, who runs this process", path.display())]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// The id of the directory's owner.
        owner: u32,
        /// The id of the user of this process.
        ours: u32,
    },
    /// Other users can read or write the directory.
    #[error("{} is open to other users (mode {mode:o}): run chmod 700 on the directory", path.display())]
    Open {
        /// The directory.
        path: PathBuf,
        /// The permissions of the directory.
        mode: u32,
    },
}

/// Creates the directory if it is missing, checks that only this user can access it, and removes sockets of
/// dead workers.
pub(super) fn prepare(path: &Path) -> Result<(), DirectoryError> {
    let io_error = |error| DirectoryError::Io {
        path: path.to_owned(),
        error,
    };
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(io_error(error)),
        Ok(()) | Err(_) => {}
    }
    let found = std::fs::symlink_metadata(path).map_err(io_error)?;
    let (path, ours, mode) = (path.to_owned(), geteuid().as_raw(), found.mode() & 0o7777);
    if !found.is_dir() {
        return Err(DirectoryError::NoDirectory(path));
    }
    if found.uid() != ours {
        let owner = found.uid();
        return Err(DirectoryError::NotOurs { path, owner, ours });
    }
    if mode & 0o077 != 0 {
        return Err(DirectoryError::Open { path, mode });
    }
    sweep(&path);
    Ok(())
}

/// Removes the sockets of dead workers. A socket that cannot be removed stays, which does no harm.
fn sweep(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return;
    };
    for entry in entries.take(SWEPT_ENTRIES_MAX).filter_map(Result::ok) {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let (path, finished) = (entry.path(), name.strip_suffix(UNFINISHED_SUFFIX));
        if address::file_name(finished.unwrap_or(name)).is_none() {
            continue;
        }
        let is_socket = entry.file_type().is_ok_and(|kind| kind.is_socket());
        if is_socket && (finished.is_none() || is_old(&path)) && is_dead(&path) {
            tracing::info!(path = %path.display(), "removed the socket of a dead worker");
            let _ = std::fs::remove_file(&path);
        }
    }
}

fn is_old(path: &Path) -> bool {
    let made = std::fs::symlink_metadata(path).and_then(|found| found.modified());
    let age = made.map(|made| SystemTime::now().duration_since(made).unwrap_or_default());
    age.is_ok_and(|age| age > UNFINISHED_AGE_MAX)
}

/// Returns whether the socket refuses connections because no process listens. A slow worker, or an error of
/// this process, does not count.
fn is_dead(path: &Path) -> bool {
    let refused = SocketAddrUnix::new(path).and_then(|address| {
        let socket = super::socket::socket()?;
        rustix::net::connect(&socket, &address)
    });
    refused == Err(Errno::CONNREFUSED)
}
