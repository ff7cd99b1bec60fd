//! The sources of keys: a given text, a given file, or this user's own key, which is made on first use.
//!
//! The module reads no environment variables. The program passes the settings in.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::hex;
use super::{
    ClusterKey, Credentials, CredentialsError, KeyMaterial, KeyOrigin, KeyRing, KeyTextError, Revocations,
    RevocationsError, Role,
};

/// Maximum size of a key file, in bytes. A longer file is not a key file.
const KEY_FILE_BYTES_MAX: u64 = 4096;

/// The source of a process's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// The text of the key itself.
    Text(KeyText),
    /// A file that must exist.
    File(PathBuf),
    /// The file of this user's own cluster key, created on first use.
    OwnFile(PathBuf),
}

/// The text of a key, which `Debug` hides.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyText(String);

impl std::fmt::Debug for KeyText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("hidden")
    }
}

/// The keys of a process, and their origin.
#[derive(Clone, Debug)]
pub struct LoadedKey {
    /// The key to act with, and the accepted keys.
    pub keys: KeyRing,
    /// True if the key was given explicitly, so that a server may listen beyond loopback (see
    /// [`bind_policy`](super::bind_policy())).
    pub explicitly_given: bool,
    /// True if this call created the file.
    pub created: bool,
    /// The place from which the key was read.
    pub origin: KeyOrigin,
    /// The list of certificates and keys that are refused although they are otherwise valid.
    pub revocations: Option<Arc<Revocations>>,
}

impl LoadedKey {
    /// Returns these keys with the list of refused certificates and keys in the file at `path`. The file is
    /// read again when it changes.
    ///
    /// Returns a [`RevocationsError`] if the file cannot be read, or is not a list.
    /// [`RevocationsError`]: the file cannot be read, or is not a list.
    pub fn refusing(mut self, path: &Path) -> Result<LoadedKey, RevocationsError> {
        self.revocations = Some(Arc::new(Revocations::open(path)?));
        Ok(self)
    }

    /// Returns the credentials to act as `role`. The credentials accept the holders of all keys, and record
    /// whether the key was given explicitly.
    ///
    /// Returns an error if the key to act with belongs to another role.
    pub fn credentials(&self, role: Role) -> Result<Credentials, CredentialsError> {
        let mut credentials = self.keys.credentials(role)?.with_origin(self.origin.clone());
        if let Some(revocations) = &self.revocations {
            credentials = credentials.refusing(Arc::clone(revocations));
        }
        Ok(if self.explicitly_given {
            credentials
        } else {
            credentials.of_this_machine_only()
        })
    }
}

impl KeySource {
    /// Returns the source that an argument of a command names: a file.
    ///
    /// # Errors
    /// Returns [`KeyError::InArguments`] if the argument is the text of a key.
    pub fn from_argument(argument: &str) -> Result<KeySource, KeyError> {
        if KeyMaterial::looks_like_key(argument) {
            return Err(KeyError::InArguments);
        }
        Ok(KeySource::File(PathBuf::from(argument)))
    }

    /// Returns the source that the value of `MILLSTREAM_KEY` names: the text of a key, or a file.
    ///
    /// ```
    /// use millstream_link::KeySource;
    ///
    /// assert!(matches!(KeySource::from_setting("/etc/millstream/read.key"), KeySource::File(_)));
    /// assert!(matches!(KeySource::from_setting("millstream-key-1:abc"), KeySource::Text(_)));
    /// ```
    pub fn from_setting(setting: &str) -> KeySource {
        if KeyMaterial::looks_like_key(setting) {
            KeySource::Text(KeyText(setting.to_owned()))
        } else {
            KeySource::File(PathBuf::from(setting))
        }
    }

    /// Returns the source that the environment names: `MILLSTREAM_KEY` if it is set and not empty, else this
    /// user's own file. `variable` looks up a variable, like [`std::env::var_os`].
    ///
    /// # Errors
    /// Returns [`KeyError::NoHome`] if no variable names the directory of the user's own file.
    pub fn from_environment(variable: impl Fn(&str) -> Option<OsString>) -> Result<KeySource, KeyError> {
        match variable("MILLSTREAM_KEY").filter(|setting| !setting.is_empty()) {
            Some(setting) => Ok(match setting.into_string() {
                Ok(setting) => KeySource::from_setting(&setting),
                Err(path) => KeySource::File(PathBuf::from(path)),
            }),
            None => KeySource::own_file(variable("XDG_DATA_HOME").as_deref(), variable("HOME").as_deref()),
        }
    }

    /// Returns the source of this user's own key: `millstream/cluster.key` in `$XDG_DATA_HOME`, else in
    /// `$HOME/.local/share`.
    ///
    /// # Errors
    /// Returns an error if neither variable is set to an absolute path.
    pub fn own_file(xdg_data_home: Option<&OsStr>, home: Option<&OsStr>) -> Result<KeySource, KeyError> {
        let absolute = |value: Option<&OsStr>| value.map(PathBuf::from).filter(|path| path.is_absolute());
        let data = absolute(xdg_data_home).or_else(|| absolute(home).map(|home| home.join(".local/share")));
        let data = data.ok_or(KeyError::NoHome)?;
        Ok(KeySource::OwnFile(data.join("millstream/cluster.key")))
    }

    /// Reads the key. For [`KeySource::OwnFile`], creates the key first if the file is missing. Blocks on the
    /// file system.
    ///
    /// Processes that create the file at the same time all get the same key.
    ///
    /// # Errors
    /// Returns an error if the text or file is not a key, or if the file is missing, unreadable, or
    /// accessible to other users.
    pub fn load(&self) -> Result<LoadedKey, KeyError> {
        match self {
            KeySource::Text(KeyText(text)) => {
                let keys = KeyRing::from_text(text).map_err(KeyError::BadText)?;
                Ok(LoadedKey {
                    keys,
                    explicitly_given: true,
                    created: false,
                    origin: KeyOrigin::Text,
                    revocations: None,
                })
            }
            KeySource::File(path) => {
                let keys = read(path)?;
                Ok(LoadedKey {
                    keys,
                    explicitly_given: true,
                    created: false,
                    origin: KeyOrigin::File(path.as_path().into()),
                    revocations: None,
                })
            }
            KeySource::OwnFile(path) => {
                let created = if path.exists() { false } else { create(path)? };
                let keys = read(path)?;
                Ok(LoadedKey {
                    keys,
                    explicitly_given: false,
                    created,
                    origin: KeyOrigin::OwnFile(path.as_path().into()),
                    revocations: None,
                })
            }
        }
    }
}

fn read(path: &Path) -> Result<KeyRing, KeyError> {
    let failed = |source| KeyError::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::open(path).map_err(failed)?;
    // The permissions are read from the open file, so that they belong to the contents that are read.
    let metadata = file.metadata().map_err(failed)?;
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(KeyError::ReadableByOthers {
            path: path.to_owned(),
            mode,
        });
    }
    let mut text = String::new();
    file.take(KEY_FILE_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(failed)?;
    KeyRing::from_text(&text).map_err(|source| KeyError::BadFile {
        path: path.to_owned(),
        source,
    })
}

/// Creates the file with a new key. Returns `false` if another process created the file first.
///
/// The key is first written to a file with a temporary name. A hard link then gives the key file its final
/// name, which fails if the name exists. Thus no process sees a partly written file, and an existing file is
/// never replaced.
fn create(path: &Path) -> Result<bool, KeyError> {
    let failed = |source| KeyError::Create {
        path: path.to_owned(),
        source,
    };
    let key = ClusterKey::generate().map_err(KeyError::BadText)?;
    let directory = path
        .parent()
        .ok_or_else(|| failed(io::Error::from(io::ErrorKind::InvalidInput)))?;
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(failed)?;
    let draft = Draft::write(directory, &key).map_err(failed)?;
    match fs::hard_link(&draft.path, path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(failed(error)),
    }
}

/// A key file with a temporary name, which is removed on drop.
struct Draft {
    path: PathBuf,
}

impl Draft {
    fn write(directory: &Path, key: &ClusterKey) -> io::Result<Draft> {
        // The name is random, because process ids repeat, even among containers that share the directory. A
        // draft of another process must not be overwritten.
        let mut suffix = [0; 16];
        aws_lc_rs::rand::fill(&mut suffix)
            .map_err(|_| io::Error::other("the operating system provided no random bytes"))?;
        let path = directory.join(format!(".cluster.key.{}", hex::encode(&suffix)));
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        let draft = Draft { path };
        writeln!(file, "{}", key.to_text())?;
        file.sync_all()?;
        Ok(draft)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "a draft of the key file could not be removed");
        }
    }
}

/// The reason for which no key could be loaded.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The argument of the command is the text of a key.
    #[error(
        "the value of --key is a key itself, which every user of this machine can read in the list of processes: write \
         the key to a file of mode 0600 and name that file with --key, or set MILLSTREAM_KEY; make a new key if this \
         machine has users you do not trust"
    )]
    InArguments,
    /// The given text is not a key.
    #[error("invalid key: {0}")]
    BadText(#[source] KeyTextError),
    /// The file does not contain a key.
    #[error("key file {path}: {source}", path = path.display())]
    BadFile {
        /// The path of the file.
        path: PathBuf,
        /// The fault of the file's content.
        source: KeyTextError,
    },
    /// The file cannot be read.
    #[error("cannot read key file {path}: {source}{}", cure(.source), path = path.display())]
    Read {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Other users can access the file, and may have read the secret.
    #[error(
        "key file {path} has mode {mode:04o}, so other users can use the key: run `chmod 600 {path}`, \
         and make a new key if this machine has users you do not trust",
        path = path.display()
    )]
    ReadableByOthers {
        /// The path of the file.
        path: PathBuf,
        /// The permission bits of the file.
        mode: u32,
    },
    /// The user's own key could not be created.
    #[error(
        "cannot create key file {path}: {source}; give a key with --key FILE or MILLSTREAM_KEY instead",
        path = path.display()
    )]
    Create {
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// No directory for the user's own key is known.
    #[error(
        "no directory for this user's key: set HOME or XDG_DATA_HOME to an absolute path, or give --key FILE"
    )]
    NoHome,
}

/// Returns the remedy for a key file that cannot be read.
fn cure(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::NotFound {
        "; correct --key or MILLSTREAM_KEY, or make a key with `millstream key --generate --out FILE`"
    } else if error.kind() == io::ErrorKind::PermissionDenied {
        "; let the user of this process own the file, with chown"
    } else {
        ""
    }
}

impl KeyError {
    /// Returns whether the key file does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, KeyError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_file_in(directory: &Path) -> KeySource {
        KeySource::own_file(Some(directory.as_os_str()), None).unwrap()
    }

    #[test]
    fn the_own_key_is_made_once_and_private() {
        let home = tempfile::tempdir().unwrap();
        let source = own_file_in(home.path());
        let first = source.load().unwrap();
        let second = source.load().unwrap();
        assert!(first.created && !second.created);
        assert!(!first.explicitly_given);
        assert_eq!(first.keys, second.keys);
        let file = home.path().join("millstream/cluster.key");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(
            fs::metadata(file.parent().unwrap()).unwrap().permissions().mode() & 0o7777,
            0o700
        );
        assert_eq!(
            fs::read_dir(file.parent().unwrap()).unwrap().count(),
            1,
            "a draft was left behind"
        );
    }

    #[test]
    fn drafts_of_other_processes_are_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("millstream");
        fs::create_dir(&directory).unwrap();
        // Processes in different containers can have the same id, and begin to count at the same number.
        let drafts: Vec<PathBuf> = (0..100)
            .map(|count| directory.join(format!(".cluster.key.{}.{count}", std::process::id())))
            .collect();
        for draft in &drafts {
            fs::write(draft, "half a k").unwrap();
        }
        assert!(own_file_in(home.path()).load().unwrap().created);
        assert!(drafts.iter().all(|draft| draft.exists()));
    }

    #[test]
    fn racing_creators_end_with_one_key() {
        let home = tempfile::tempdir().unwrap();
        let source = own_file_in(home.path());
        let gate = std::sync::Barrier::new(8);
        let keys: Vec<LoadedKey> = std::thread::scope(|scope| {
            let race = || {
                gate.wait();
                source.load().unwrap()
            };
            let racers: Vec<_> = (0..8).map(|_| scope.spawn(race)).collect();
            racers.into_iter().map(|racer| racer.join().unwrap()).collect()
        });
        assert!(keys.iter().all(|loaded| loaded.keys == keys[0].keys));
        assert_eq!(keys.iter().filter(|loaded| loaded.created).count(), 1);
    }

    #[test]
    fn a_readable_key_file_is_refused() {
        let home = tempfile::tempdir().unwrap();
        own_file_in(home.path()).load().unwrap();
        let path = home.path().join("millstream/cluster.key");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = KeySource::File(path.clone()).load().unwrap_err().to_string();
        assert!(error.contains("0640") && error.contains("chmod 600"), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o400)).unwrap();
        assert!(KeySource::File(path).load().unwrap().explicitly_given);
    }

    #[test]
    fn arguments_name_files_and_never_keys() {
        let text = ClusterKey::from_bytes([3; 32]).to_text();
        let refused = KeySource::from_argument(&text).unwrap_err().to_string();
        assert!(
            refused.contains("MILLSTREAM_KEY") && !refused.contains(&text),
            "{refused}"
        );
        let file = KeySource::File(PathBuf::from("/etc/key"));
        assert_eq!(KeySource::from_argument("/etc/key").unwrap(), file);
    }

    #[test]
    fn the_environment_names_a_key_or_file() {
        let text = ClusterKey::from_bytes([3; 32]).to_text();
        let of = |key: &str| {
            let key = key.to_owned();
            let lookup = move |name: &str| match name {
                "MILLSTREAM_KEY" => Some(OsString::from(&key)),
                "HOME" => Some(OsString::from("/nowhere/me")),
                _ => None,
            };
            KeySource::from_environment(lookup).unwrap()
        };
        assert!(matches!(of(&text), KeySource::Text(_)));
        assert_eq!(of("/etc/key"), KeySource::File(PathBuf::from("/etc/key")));
        assert!(matches!(of(""), KeySource::OwnFile(path) if path.starts_with("/nowhere/me")));
    }

    #[test]
    fn a_setting_is_a_key_or_a_path() {
        let text = ClusterKey::from_bytes([3; 32]).to_text();
        let loaded = KeySource::from_setting(&text).load().unwrap();
        assert_eq!(loaded.keys, KeyRing::from(ClusterKey::from_bytes([3; 32])));
        assert!(!format!("{:?}", KeySource::from_setting(&text)).contains("0303"));
        let missing = KeySource::from_setting("/nowhere/key").load().unwrap_err();
        assert!(missing.is_missing());
        assert!(missing.to_string().contains("/nowhere/key"), "{missing}");
        assert!(matches!(
            KeySource::own_file(None, Some(OsStr::new("home"))),
            Err(KeyError::NoHome)
        ));
    }
}
