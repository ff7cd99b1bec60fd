//! The directory of workers' sockets, where one is configured: ours alone, and without what dead workers left
//! in it (D9.6).
//!
//! Refuses to know who connects.

use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use rustix::process::geteuid;
use thiserror::Error;

use super::address;

/// The end of the name of a socket that nobody listens on yet.
pub(super) const UNFINISHED_SUFFIX: &str = ".new";

/// A socket under that name is left over after this time: it has it for microseconds.
const UNFINISHED_AGE_MAX: Duration = Duration::from_secs(60);

/// Entries looked at in one sweep: many times the workers of a host, few enough to be looked at while one
/// starts.
const SWEPT_ENTRIES_MAX: usize = 10_000;

/// Why a directory cannot be used for sockets; for its owner to mend.
#[derive(Debug, Error)]
pub enum DirectoryError {
    /// The directory cannot be made or looked at.
    #[error("{}: {error}", path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The path is something else than a directory.
    #[error("{} is no directory (nor may it be a link to one)", .0.display())]
    NoDirectory(PathBuf),
    /// The directory belongs to another user.
    #[error("{} belongs to user {owner}, not to user {ours}, who runs this", path.display())]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// The id of its user.
        owner: u32,
        /// The id of our user.
        ours: u32,
    },
    /// Others may look or write into it.
    #[error("{} is open to others (mode {mode:o}): chmod 700 it", path.display())]
    Open {
        /// The directory.
        path: PathBuf,
        /// The permissions.
        mode: u32,
    },
}

/// Makes the directory if it is missing, checks that it is ours and nobody else's to open, and sweeps it.
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

/// Removes the sockets of workers that are no more. What cannot be removed stays: it does no harm but to be
/// there.
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
            tracing::info!(path = %path.display(), "removed the socket of a worker that is no more");
            let _ = std::fs::remove_file(&path);
        }
    }
}

fn is_old(path: &Path) -> bool {
    let made = std::fs::symlink_metadata(path).and_then(|found| found.modified());
    let age = made.map(|made| SystemTime::now().duration_since(made).unwrap_or_default());
    age.is_ok_and(|age| age > UNFINISHED_AGE_MAX)
}

/// Returns whether no process listens there: not that one is slow, or that this process cannot ask.
fn is_dead(path: &Path) -> bool {
    let refused = SocketAddrUnix::new(path).and_then(|address| {
        let socket = super::socket::socket()?;
        rustix::net::connect(&socket, &address)
    });
    refused == Err(Errno::CONNREFUSED)
}
