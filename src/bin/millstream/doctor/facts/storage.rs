//! The facts of the credentials for object stores: the names of variables and files, never their contents.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::super::stores::Store;

/// The credentials of one store that this process can see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct CredentialFacts {
    /// The variables that are set and not empty.
    pub(in super::super) variables: Vec<&'static str>,
    /// The variables that name a file which does not exist.
    pub(in super::super) dangling: Vec<&'static str>,
    /// The well-known files that exist, of those that the client reads.
    pub(in super::super) files_read: Vec<&'static str>,
    /// The well-known files that exist, of those that the client does not read.
    pub(in super::super) files_ignored: Vec<&'static str>,
}

/// Looks for the credentials of a store. `variable` looks up a variable, like [`std::env::var_os`].
pub(in super::super) fn credentials(
    store: &Store,
    variable: impl Fn(&str) -> Option<OsString>,
) -> CredentialFacts {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty());
    let home = set("HOME").map(PathBuf::from);
    let existing = |names: &[&'static str]| -> Vec<&'static str> {
        let exists = |name: &&str| home.as_ref().is_some_and(|home| home.join(name).is_file());
        names.iter().copied().filter(exists).collect()
    };
    let is_dangling = |name: &&str| set(name).is_some_and(|value| !Path::new(&value).exists());
    CredentialFacts {
        variables: store
            .variables()
            .into_iter()
            .filter(|name| set(name).is_some())
            .collect(),
        dangling: store.paths.iter().copied().filter(is_dangling).collect(),
        files_read: existing(store.files_read),
        files_ignored: existing(store.files_ignored),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::stores::STORES;
    use super::*;

    #[test]
    fn names_are_found_without_values() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".aws")).unwrap();
        std::fs::write(home.path().join(".aws/credentials"), "secret").unwrap();
        let variable = |name: &str| match name {
            "HOME" => Some(home.path().into()),
            "AWS_ACCESS_KEY_ID" => Some("planted".into()),
            "AWS_SECRET_ACCESS_KEY" => Some(OsString::new()),
            "AWS_WEB_IDENTITY_TOKEN_FILE" => Some("/nonexistent/planted".into()),
            _ => None,
        };
        let facts = credentials(&STORES[0], variable);
        let expected = CredentialFacts {
            variables: vec!["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE"],
            dangling: vec!["AWS_WEB_IDENTITY_TOKEN_FILE"],
            files_read: vec![],
            files_ignored: vec![".aws/credentials"],
        };
        assert_eq!(facts, expected);
        assert!(!format!("{facts:?}").contains("planted"));
        assert_eq!(credentials(&STORES[1], variable), CredentialFacts::default());
    }
}
