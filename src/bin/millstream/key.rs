//! `millstream key`: prints or makes keys.

use std::str::FromStr;

use millstream::link::{ClusterKey, KeyMaterial, KeySource, LoadedKey, Role};

use crate::args::{KeyArgs, KeyFlag};
use crate::console::{note, say};

/// Runs the command.
pub(crate) fn run(args: &KeyArgs) -> Result<(), String> {
    if args.generate {
        say(&ClusterKey::generate()
            .map_err(|error| error.to_string())?
            .to_text());
        return Ok(());
    }
    let source = source(&args.key)?;
    if args.path {
        return match source {
            KeySource::File(path) | KeySource::OwnFile(path) => {
                say(&path.display().to_string());
                Ok(())
            }
            KeySource::Text(_) => Err("the key was given as text, it has no path".to_owned()),
        };
    }
    let loaded = source.load().map_err(|error| error.to_string())?;
    let Some(role) = &args.role else {
        return match loaded.key {
            KeyMaterial::Cluster(key) => {
                say(&key.to_text());
                Ok(())
            }
            KeyMaterial::Role(key) => {
                say(&key.to_text());
                Ok(())
            }
        };
    };
    let role = Role::from_str(role).map_err(|error| error.to_string())?;
    match loaded.key {
        KeyMaterial::Cluster(key) => {
            say(&key.role_key(role).to_text());
            Ok(())
        }
        KeyMaterial::Role(key) if key.role() == role => {
            say(&key.to_text());
            Ok(())
        }
        KeyMaterial::Role(key) => Err(format!(
            "a key of role {} cannot be turned into one of role {role}; ask who has the cluster key",
            key.role()
        )),
    }
}

/// Where the key comes from: the flag or environment, else the user's own file.
pub(crate) fn source(flag: &KeyFlag) -> Result<KeySource, String> {
    match &flag.key {
        Some(setting) => Ok(KeySource::from_setting(setting)),
        None => {
            let (xdg, home) = (std::env::var_os("XDG_DATA_HOME"), std::env::var_os("HOME"));
            KeySource::own_file(xdg.as_deref(), home.as_deref()).map_err(|error| error.to_string())
        }
    }
}

/// The key itself. Says so when this made one.
pub(crate) fn load(flag: &KeyFlag) -> Result<LoadedKey, String> {
    let source = source(flag)?;
    let loaded = source.load().map_err(|error| error.to_string())?;
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
