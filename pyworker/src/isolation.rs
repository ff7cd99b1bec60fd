//! The isolation of users' code from the rights of its worker. Does not know how the kernel does it:
//! `isolation.py` does.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;

use tempfile::TempDir;

/// The variable that chooses the isolation where no argument does.
const VARIABLE: &str = "MILLSTREAM_ISOLATION";
/// The variable that names what confined code may read, separated by colons.
const READABLE_VARIABLE: &str = "MILLSTREAM_ISOLATION_READ";

/// The isolation of users' code from the rights of its worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Code has limits of time, memory and processes, and may do what the worker's user may. This is the
    /// default.
    #[default]
    Limits,
    /// Code also reads only Python, its libraries and these folders or files, writes only to a folder of its
    /// own, and opens no connection.
    Strict {
        /// The paths that the code may read.
        readable: Vec<PathBuf>,
    },
}

/// Text that names no isolation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no isolation of users' code: expected `limits` or `strict`")]
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
    /// Returns the isolation that `MILLSTREAM_ISOLATION` names, with what `MILLSTREAM_ISOLATION_READ` lets
    /// code read. A name that is not known is taken for `strict`.
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
                tracing::warn!(%error, "{VARIABLE} is taken for `strict`");
                Isolation::Strict { readable: Vec::new() }
            })
        };
        isolation.reading(std::env::split_paths(readable).filter(|path| !path.as_os_str().is_empty()))
    }

    /// Returns the same isolation, in which code may read these folders and files too.
    #[must_use]
    pub fn reading(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Isolation {
        if let Isolation::Strict { readable } = &mut self {
            readable.extend(paths);
        }
        self
    }

    /// Tells a foreman that is about to be started, and returns the folder that its code may write to.
    ///
    /// # Errors
    /// No such folder can be made.
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
