//! `millstream key`: prints or generates keys.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
#[cfg(unix)]
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use millstream::link::{ClusterKey, KeyMaterial, KeySource, LoadedKey, Role};

use crate::args::{IdentityFlags, KeyFlag};
use crate::console::{note, say};
use crate::help;

#[derive(Debug, Clone, Args)]
#[command(after_long_help = help::KEY)]
pub(crate) struct KeyArgs {
    #[command(flatten)]
    pub(crate) key: KeyFlag,
    /// Prints the key of this role, which permits no more than the role needs: `read` permits reading, and
    /// `submit` also permits running code on workers.
    #[arg(long, value_parser = ["read", "submit", "worker", "dispatcher"])]
    pub(crate) role: Option<String>,
    /// Prints the public half of the key. A key file may list the public half so that its process accepts the
    /// key's holders; see below.
    #[arg(long, conflicts_with_all = ["role", "generate"])]
    pub(crate) public: bool,
    /// Generates a new cluster key, and prints the key unless --out is given.
    #[arg(long, conflicts_with = "role")]
    pub(crate) generate: bool,
    /// Writes the key to this new file, which only its owner can read, instead of printing the key. The
    /// command never overwrites an existing file.
    #[arg(long, value_name = "FILE", conflicts_with = "path")]
    pub(crate) out: Option<PathBuf>,
    /// Prints the path of the key file that the command uses.
    #[arg(long, conflicts_with_all = ["role", "generate", "public"])]
    pub(crate) path: bool,
}

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
    written.map_err(|error| {
        let reason = if error.kind() == ErrorKind::AlreadyExists {
            "the file exists already, and a key is never overwritten: use that key, or choose another name"
                .to_owned()
        } else {
            error.to_string()
        };
        format!("--out {}: {reason}", path.display())
    })
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
    let source = source(&flags.key)?;
    let loaded = load_from(&source, flags)?;
    if loaded.created
        && let KeySource::OwnFile(path) = &source
    {
        note(&format!(
            "made a new cluster key for this user: {}",
            path.display()
        ));
    }
    Ok(loaded)
}

/// Loads the key of a source, and the list of revoked certificates and keys.
pub(crate) fn load_from(source: &KeySource, flags: &IdentityFlags) -> Result<LoadedKey, String> {
    leave_no_core();
    let loaded = source.load().map_err(|error| error.to_string())?;
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
