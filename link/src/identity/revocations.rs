//! A file of revoked certificates and keys, which is read again when it changes.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;

use super::revoked_list::{RevokedList, RevokedListError};

/// The time after which the file is checked for changes.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Maximum size of the file, in bytes.
const BYTES_MAX: u64 = 4 << 20;

/// The certificates and keys that a file revokes. The file is checked every second while the list is in use.
/// A file that cannot be read leaves the list unchanged.
#[derive(Debug)]
pub struct Revocations {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    list: Arc<RevokedList>,
    version: Option<Version>,
    looked: Instant,
}

/// The properties by which a change of the file is detected: time, length and inode.
type Version = (SystemTime, u64, u64);

impl Revocations {
    /// Opens the file and reads the list.
    ///
    /// # Errors
    /// Returns a [`RevocationsError`] if the file cannot be read, or is not a list.
    pub fn open(path: &Path) -> Result<Revocations, RevocationsError> {
        let (list, version) = read(path)?;
        Ok(Revocations {
            path: path.to_owned(),
            state: Mutex::new(State {
                list: Arc::new(list),
                version: Some(version),
                looked: Instant::now(),
            }),
        })
    }

    /// Returns whether this certificate (DER), or the key that signed it, is revoked.
    pub fn names(&self, certificate: &[u8]) -> bool {
        self.current().names(certificate)
    }

    /// Returns the list of the file, at most a second old.
    pub(crate) fn current(&self) -> Arc<RevokedList> {
        let mut state = self.state.lock();
        if state.looked.elapsed() >= LOOK_EVERY {
            state.looked = Instant::now();
            let version = version(&self.path).ok();
            if version != state.version {
                // The version is stored before the file is read, so that a partly written file is read again
                // after its next change.
                state.version = version;
                match read(&self.path) {
                    Ok((list, version)) => {
                        tracing::info!(path = %self.path.display(), "read the list of revoked certificates and keys again");
                        state.list = Arc::new(list);
                        state.version = Some(version);
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the list of revoked certificates and keys was not updated");
                    }
                }
            }
        }
        Arc::clone(&state.list)
    }
}

fn version(path: &Path) -> io::Result<Version> {
    version_of(&std::fs::metadata(path)?)
}

fn version_of(metadata: &std::fs::Metadata) -> io::Result<Version> {
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(metadata);
    #[cfg(not(unix))]
    let inode = 0;
    Ok((metadata.modified()?, metadata.len(), inode))
}

fn read(path: &Path) -> Result<(RevokedList, Version), RevocationsError> {
    let failed = |source| RevocationsError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    let version = file
        .metadata()
        .and_then(|metadata| version_of(&metadata))
        .map_err(failed)?;
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    let list = RevokedList::from_text(&text).map_err(|source| RevocationsError::Invalid {
        path: path.to_owned(),
        source,
    })?;
    Ok((list, version))
}

/// The reason for which a file does not provide a list of revoked certificates and keys.
#[derive(Debug, thiserror::Error)]
pub enum RevocationsError {
    /// The file cannot be read.
    #[error("cannot read the list of revoked certificates and keys {}: {source}", path.display())]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The content of the file is not a list.
    #[error("cannot use the list of revoked certificates and keys {}: {source}", path.display())]
    Invalid {
        /// The path of the file.
        path: PathBuf,
        /// The fault of the file's content.
        source: RevokedListError,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_again_when_it_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("revoked");
        assert!(matches!(
            Revocations::open(&path),
            Err(RevocationsError::Unreadable { .. })
        ));
        std::fs::write(&path, "").unwrap();
        let revocations = Revocations::open(&path).unwrap();
        let look = || {
            revocations.state.lock().looked = Instant::now() - LOOK_EVERY;
            revocations.current()
        };
        assert_eq!(*look(), RevokedList::default());
        let entry = format!("sha256:{}\n", "0a".repeat(32));
        std::fs::write(&path, &entry).unwrap();
        let revoked = RevokedList::from_text(&entry).unwrap();
        assert_eq!(*look(), revoked);
        // An invalid or missing file must not lift a revocation.
        std::fs::write(&path, "hello").unwrap();
        assert_eq!(*look(), revoked);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(*look(), revoked);
        std::fs::write(&path, "# nobody\n").unwrap();
        assert_eq!(*look(), RevokedList::default());
    }
}
