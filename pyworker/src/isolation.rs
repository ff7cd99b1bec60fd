//! The isolation of users' code from the rights of its worker. This file only selects the isolation;
//! `isolation.py` applies it with kernel features.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;

use tempfile::TempDir;

/// The environment variable that selects the isolation if no argument does.
const VARIABLE: &str = "MILLSTREAM_ISOLATION";
/// The environment variable that lists the paths that confined code may read, separated by colons.
const READABLE_VARIABLE: &str = "MILLSTREAM_ISOLATION_READ";

/// The isolation of users' code from the rights of its worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Code has limits of time, memory and processes, but all rights of the worker's user. This is the
    /// default.
    #[default]
    Limits,
    /// In addition to the limits, code may read only Python, its libraries and the `readable` paths. The code
    /// may write only to a folder of its own, and may open no connection.
    Strict {
        /// The paths that the code may read.
        readable: Vec<PathBuf>,
    },
}

/// The error for text that does not name an isolation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid isolation {0}: expected `limits` or `strict`")]
pub struct UnknownIsolation(String);

impl FromStr for Isolation {
    type Err = UnknownIsolation;

    fn from_str(text: &str) -> Result<Isolation, UnknownIsolation> {
        match text {
            "limits" => Ok(Isolation::Limits),
            "strict" => Ok(Isolation::Strict { readable: Vec::new() }),
            other => Err(UnknownIsolation(other.to_owned())),
        }
    }
}

impl Isolation {
    /// Returns the isolation that `MILLSTREAM_ISOLATION` names, with the readable paths in
    /// `MILLSTREAM_ISOLATION_READ`. Treats an unknown name as `strict`.
    pub fn from_environment() -> Isolation {
        let named = std::env::var_os(VARIABLE).unwrap_or_default();
        let readable = std::env::var_os(READABLE_VARIABLE).unwrap_or_default();
        Isolation::named(&named, &readable)
    }

    fn named(name: &OsStr, readable: &OsStr) -> Isolation {
        let name = name.to_string_lossy();
        let isolation = if name.is_empty() {
            Isolation::Limits
        } else {
            name.parse().unwrap_or_else(|error: UnknownIsolation| {
                tracing::warn!(%error, "treating {VARIABLE} as `strict`");
                Isolation::Strict { readable: Vec::new() }
            })
        };
        isolation.reading(std::env::split_paths(readable).filter(|path| !path.as_os_str().is_empty()))
    }

    /// Adds folders and files that code may read under strict isolation.
    #[must_use]
    pub fn reading(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Isolation {
        if let Isolation::Strict { readable } = &mut self {
            readable.extend(paths);
        }
        self
    }

    /// Passes the isolation to a foreman process as arguments of its command. Under strict isolation, returns
    /// the folder to which the code may write.
    ///
    /// # Errors
    /// Fails if this folder cannot be created.
    pub(super) fn apply(&self, command: &mut Command) -> io::Result<Option<TempDir>> {
        let Isolation::Strict { readable } = self else {
            return Ok(None);
        };
        let scratch = tempfile::Builder::new().prefix("millstream-code-").tempdir()?;
        command.arg(scratch.path());
        command.args(readable.iter().map(OsString::from));
        Ok(Some(scratch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, readable: &str) -> Isolation {
        Isolation::named(OsStr::new(name), OsStr::new(readable))
    }

    #[test]
    fn unknown_isolations_are_taken_for_the_strictest() {
        let strict = |readable: &[&str]| Isolation::Strict {
            readable: readable.iter().map(PathBuf::from).collect(),
        };
        assert_eq!(named("", "/data"), Isolation::Limits);
        assert_eq!(named("limits", ""), Isolation::Limits);
        assert_eq!(named("strict", ""), strict(&[]));
        assert_eq!(named("Strict!", "/data::/more"), strict(&["/data", "/more"]));
        assert!("none".parse::<Isolation>().is_err());
    }

    #[test]
    fn strict_code_has_a_folder_of_its_own() {
        let mut command = Command::new("python3");
        assert!(Isolation::Limits.apply(&mut command).unwrap().is_none());
        assert_eq!(command.get_args().count(), 0);
        let strict = named("strict", "/data");
        let scratch = strict.apply(&mut command).unwrap().unwrap();
        let arguments: Vec<_> = command.get_args().collect();
        assert_eq!(arguments, [scratch.path().as_os_str(), OsStr::new("/data")]);
    }
}
