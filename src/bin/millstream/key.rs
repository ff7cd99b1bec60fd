//! `millstream key`: prints or generates keys.

use std::fs::OpenOptions;
use std::io::Write;
#[cfg(unix)]
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::str::FromStr;

use millstream::link::{ClusterKey, KeyMaterial, KeySource, LoadedKey, Role};

use crate::args::{IdentityFlags, KeyArgs, KeyFlag};
use crate::console::{note, say};

/// Runs the command.
pub(crate) fn run(args: &KeyArgs) -> Result<(), String> {
    if args.path {
        return match source(&args.key)? {
            KeySource::File(path) | KeySource::OwnFile(path) => {
                say(&path.display().to_string());
                Ok(())
            }
            KeySource::Text(_) => Err("the key was given as text, so it has no path".to_owned()),
        };
    }
    let text = text(args)?;
    match &args.out {
        Some(path) => write(path, &text),
        None => {
            say(&text);
            Ok(())
        }
    }
}

/// Returns the text of the requested key.
fn text(args: &KeyArgs) -> Result<String, String> {
    if args.generate {
        let key = ClusterKey::generate().map_err(|error| error.to_string())?;
        return Ok(key.to_text());
    }
    let loaded = source(&args.key)?.load().map_err(|error| error.to_string())?;
    let role = args.role.as_deref().map(Role::from_str).transpose();
    let own = loaded.keys.own;
    if args.public {
        return Ok(own.public().to_text());
    }
    match (own, role.map_err(|error| error.to_string())?) {
        (KeyMaterial::Cluster(key), None) => Ok(key.to_text()),
        (KeyMaterial::Cluster(key), Some(role)) => Ok(key.role_key(role).to_text()),
        (KeyMaterial::Role(key), None) => Ok(key.to_text()),
        (KeyMaterial::Role(key), Some(role)) if key.role() == role => Ok(key.to_text()),
        (KeyMaterial::Role(key), Some(role)) => Err(format!(
            "a key of role {} cannot be turned into one of role {role}; ask the holder of the cluster key",
            key.role()
        )),
    }
}

/// Writes a key to a new file that only its owner can read.
fn write(path: &Path, text: &str) -> Result<(), String> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    options.mode(0o600);
    let written = options
        .open(path)
        .and_then(|mut file| file.write_all(format!("{text}\n").as_bytes()));
    written.map_err(|error| format!("--out {}: {error}", path.display()))
}

/// Returns the source of the key: the flag, else the environment, else the user's own file.
pub(crate) fn source(flag: &KeyFlag) -> Result<KeySource, String> {
    let source = match &flag.key {
        Some(argument) => KeySource::from_argument(argument),
        None => KeySource::from_environment(|name| std::env::var_os(name)),
    };
    source.map_err(|error| error.to_string())
}

/// Loads the key of this process, and the list of revoked certificates and keys. Prints a note if it creates
/// a new key.
pub(crate) fn load(flags: &IdentityFlags) -> Result<LoadedKey, String> {
    leave_no_core();
    let source = source(&flags.key)?;
    let loaded = source.load().map_err(|error| error.to_string())?;
    if loaded.created
        && let KeySource::OwnFile(path) = &source
    {
        note(&format!(
            "made a new cluster key for this user: {}",
            path.display()
        ));
    }
    match &flags.revoked {
        Some(path) => loaded
            .refusing(path)
            .map_err(|error| format!("--revoked: {error}")),
        None => Ok(loaded),
    }
}

/// Disables core dumps of this process, because its memory contains keys. `prlimit --core` can raise the
/// limit again.
fn leave_no_core() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let Rlimit { maximum, .. } = getrlimit(Resource::Core);
        let none = Rlimit {
            current: Some(0),
            maximum,
        };
        // Every process may lower its limits, so the call does not fail.
        let _ = setrlimit(Resource::Core, none);
    }
}
