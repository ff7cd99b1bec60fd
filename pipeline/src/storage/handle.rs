//! The handle through which files are opened and listed.

use std::io;
use std::sync::Arc;

#[cfg(feature = "storage")]
use parking_lot::Mutex;

use crate::exec::{Cancel, ErrorKind};

use super::access::Access;
#[cfg(feature = "storage")]
use super::cache::Cache;
use super::config::StorageConfig;
use super::error::StorageError;
use super::listed::Listed;
use super::local;
use super::location::{Location, RemoteLocation};
use super::object::Object;
#[cfg(feature = "storage")]
use super::remote::{Opened, Remote};
use super::version::FileVersion;

/// The handle that opens and lists files.
///
/// Files of this machine have paths; objects of stores have URLs such as `s3://bucket/key`, `gs://` or
/// `az://`. Files of servers have `http://` and `https://` URLs. Clones are cheap, and share the storage and
/// one thread for requests. The thread starts with the first request, and ends with the last clone and the
/// last open file.
#[derive(Debug, Clone, Default)]
pub struct Storage {
    shared: Arc<Shared>,
    /// The cancellation signal that ends the waits of this handle.
    cancel: Option<Cancel>,
    /// The file that this handle opens in one version only.
    expected: Option<Arc<Expected>>,
}

/// A file of a known version.
#[derive(Debug)]
struct Expected {
    path: String,
    version: FileVersion,
}

#[derive(Debug, Default)]
#[cfg_attr(
    not(feature = "storage"),
    expect(dead_code, reason = "files of this machine use no settings")
)]
struct Shared {
    access: Access,
    config: StorageConfig,
    #[cfg(feature = "storage")]
    cache: Option<Arc<Cache>>,
    #[cfg(feature = "storage")]
    remote: Mutex<Option<Arc<Remote>>>,
}

impl Storage {
    /// Makes a storage with these settings. Scans the directory of the cache, if a cache is set. Blocks.
    ///
    /// # Errors
    /// [`StorageError`] if a setting is invalid, or the directory of the cache cannot be used.
    pub fn new(config: StorageConfig) -> Result<Storage, StorageError> {
        config
            .check()
            .map_err(|reason| StorageError::settings(ErrorKind::Caller, reason))?;
        #[cfg(feature = "storage")]
        let cache = match &config.cache {
            Some(cache) => {
                let opened = Cache::open(cache);
                let refused = |reason| StorageError::settings(ErrorKind::Resource, reason);
                Some(Arc::new(opened.map_err(refused)?))
            }
            None => None,
        };
        let access = Access::new(&config.allowed).map_err(|reason| {
            StorageError::settings(ErrorKind::Caller, format!("invalid --allow-path: {reason}"))
        })?;
        let shared = Shared {
            access,
            config,
            #[cfg(feature = "storage")]
            cache,
            #[cfg(feature = "storage")]
            remote: Mutex::default(),
        };
        Ok(Storage {
            shared: Arc::new(shared),
            cancel: None,
            expected: None,
        })
    }

    /// Checks that a file or folder of this machine may be used without this storage.
    ///
    /// # Errors
    /// [`StorageError`] of the kind `Caller` if `path` is not allowed.
    pub fn permits(&self, path: &str) -> Result<(), StorageError> {
        let location = Location::Local(path.to_owned());
        let permitted = self.shared.access.check(&location);
        permitted.map_err(|reason| StorageError::open(ErrorKind::Caller, path, reason))
    }

    /// Returns a handle whose calls stop waiting when `cancel` is raised.
    #[must_use]
    pub fn until(&self, cancel: &Cancel) -> Storage {
        Storage {
            cancel: Some(cancel.clone()),
            ..self.clone()
        }
    }

    /// Returns a handle that refuses to open the file at `path` in another version.
    #[must_use]
    pub(crate) fn expecting(&self, path: &str, version: FileVersion) -> Storage {
        let path = path.to_owned();
        Storage {
            expected: Some(Arc::new(Expected { path, version })),
            ..self.clone()
        }
    }

    /// Checks that the expected file exists and was not changed, if it is a file of this machine. Functions
    /// can open such a file without this handle.
    ///
    /// # Errors
    /// [`StorageError`] of the kind `Precondition` if the file was changed, and of the kind `NotFound` if it
    /// is gone.
    pub(crate) fn check_expected(&self) -> Result<(), StorageError> {
        let Some(expected) = &self.expected else {
            return Ok(());
        };
        let Ok(Location::Local(local)) = self.located(&expected.path) else {
            return Ok(());
        };
        match std::fs::metadata(&local) {
            Ok(found) => self.check_version(&expected.path, FileVersion::of_local(&found)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(StorageError::open(ErrorKind::NotFound, &local, error.to_string()))
            }
            // Opening the file states the reason.
            Err(_) => Ok(()),
        }
    }

    /// Checks that a file at `path` of the version `found` has the expected version.
    fn check_version(&self, path: &str, found: FileVersion) -> Result<(), StorageError> {
        let expected = self.expected.as_ref().filter(|expected| expected.path == path);
        let change = expected.and_then(|expected| expected.version.change(&found));
        change.map_or(Ok(()), |change| {
            let reason = format!(
                "the file was changed: {change}. Exactly-once reading needs files that stay the same for a whole epoch: restore \
                 the file and load the last saved state, or begin the epoch again"
            );
            Err(StorageError::open(ErrorKind::Precondition, path, reason))
        })
    }

    /// Opens the file at `path`. Blocks.
    ///
    /// # Errors
    /// [`StorageError`] if the file does not exist, may not be read, or its store cannot be reached.
    pub fn open(&self, path: &str) -> Result<Object, StorageError> {
        let failed = |kind, reason: String| StorageError::open(kind, path, reason);
        self.check()
            .map_err(|reason| failed(ErrorKind::Cancelled, reason))?;
        match self
            .located(path)
            .map_err(|reason| failed(ErrorKind::Caller, reason))?
        {
            Location::Local(local) => {
                let file = local::open(&local)?;
                self.check_version(path, file.version())?;
                Ok(Object::local(&local, file))
            }
            Location::Remote(location) => self.open_remote(path, &location),
        }
    }

    /// Returns the files that match the glob `pattern`, sorted by the bytes of their paths. Blocks.
    ///
    /// The result has at least one file and at most [`FILES_MAX`](super::FILES_MAX). Directories are left
    /// out. A server has no listing, so its pattern must be the URL of one file; no request is made.
    ///
    /// # Errors
    /// [`StorageError`] if the pattern is invalid, matches no file or too many files, or the files cannot be
    /// listed.
    pub fn list(&self, pattern: &str) -> Result<Vec<Listed>, StorageError> {
        let failed = |kind, reason: String| StorageError::list(kind, pattern, reason);
        self.check()
            .map_err(|reason| failed(ErrorKind::Cancelled, reason))?;
        match self
            .located(pattern)
            .map_err(|reason| failed(ErrorKind::Caller, reason))?
        {
            Location::Local(pattern) => local::list(&pattern),
            Location::Remote(location) => self.list_remote(&location),
        }
    }

    /// Parses a path, and checks that reading it is allowed.
    fn located(&self, path: &str) -> Result<Location, String> {
        let location = Location::of(path)?;
        self.shared.access.check(&location)?;
        Ok(location)
    }

    fn check(&self) -> Result<(), String> {
        match &self.cancel {
            Some(cancel) if cancel.is_cancelled() => Err("the task was cancelled".to_owned()),
            Some(_) | None => Ok(()),
        }
    }

    #[cfg(feature = "storage")]
    fn open_remote(&self, path: &str, location: &RemoteLocation) -> Result<Object, StorageError> {
        let shown = Arc::from(location.to_string());
        let remote = self
            .remote()
            .map_err(|reason| StorageError::open(ErrorKind::Resource, &shown, reason))?;
        Ok(match remote.open(location, &shown, self.cancel.as_ref())? {
            Opened::Blocks(file) => {
                self.check_version(path, file.version())?;
                Object::remote(&shown, file)
            }
            Opened::Whole(file) => Object::local(&shown, local::whole(&shown, file)?),
        })
    }

    #[cfg(feature = "storage")]
    fn list_remote(&self, location: &RemoteLocation) -> Result<Vec<Listed>, StorageError> {
        let remote = self
            .remote()
            .map_err(|reason| StorageError::list(ErrorKind::Resource, &location.to_string(), reason))?;
        remote.list(location, self.cancel.as_ref())
    }

    /// Returns the client of the stores, which the first call starts.
    #[cfg(feature = "storage")]
    fn remote(&self) -> Result<Arc<Remote>, String> {
        let mut remote = self.shared.remote.lock();
        if let Some(remote) = &*remote {
            return Ok(Arc::clone(remote));
        }
        let started = Remote::start(
            &self.shared.config,
            &self.shared.access,
            self.shared.cache.clone(),
        )?;
        Ok(Arc::clone(remote.insert(Arc::new(started))))
    }

    #[cfg(not(feature = "storage"))]
    fn open_remote(&self, _: &str, location: &RemoteLocation) -> Result<Object, StorageError> {
        Err(StorageError::open(
            ErrorKind::Caller,
            &location.to_string(),
            NOT_BUILT_IN,
        ))
    }

    #[cfg(not(feature = "storage"))]
    fn list_remote(&self, location: &RemoteLocation) -> Result<Vec<Listed>, StorageError> {
        Err(StorageError::list(
            ErrorKind::Caller,
            &location.to_string(),
            NOT_BUILT_IN,
        ))
    }
}

#[cfg(not(feature = "storage"))]
const NOT_BUILT_IN: &str =
    "this build cannot read files of stores and servers: build with the feature \"storage\"";
