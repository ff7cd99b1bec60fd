//! The facts of the key: its source, its roles, and its fingerprint. The key itself is never part of a fact.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use millstream::link::{KeyMaterial, KeyOrigin, KeySource, LoadedKey, Role};

use crate::args::IdentityFlags;
use crate::key;

/// The facts of this process's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum IdentityFacts {
    /// The user has no key of their own yet, and named no other key.
    Missing {
        /// The file that the first command with a server creates.
        path: PathBuf,
    },
    /// The key cannot be used; the text names the reason and the remedy.
    Unusable(String),
    /// The key can be used.
    Usable(UsableKey),
}

/// A key that can be used, without the key itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct UsableKey {
    /// The setting that names the key, and its file.
    pub(in super::super) source: String,
    /// The role of a role key; `None` for a cluster key.
    pub(in super::super) role: Option<Role>,
    /// The fingerprint of the public half.
    pub(in super::super) fingerprint: String,
    /// The number of further keys whose holders are accepted.
    pub(in super::super) accepted: usize,
    /// True if the user named the key, so that servers may listen beyond loopback.
    pub(in super::super) is_named: bool,
    /// The folder of the key file if other users may replace files in it, with its mode.
    pub(in super::super) open_folder: Option<(PathBuf, u32)>,
}

/// Loads the key of this process without creating one. Returns the facts, and the key if it can be used.
pub(in super::super) fn gather(flags: &IdentityFlags) -> (IdentityFacts, Option<LoadedKey>) {
    let source = match key::source(&flags.key) {
        Ok(source) => source,
        Err(reason) => return (IdentityFacts::Unusable(reason), None),
    };
    if let KeySource::OwnFile(path) = &source
        && !path.exists()
    {
        return (IdentityFacts::Missing { path: path.clone() }, None);
    }
    match key::load_from(&source, flags) {
        Ok(loaded) => (IdentityFacts::Usable(usable(&loaded, flags)), Some(loaded)),
        Err(reason) => (IdentityFacts::Unusable(reason), None),
    }
}

fn usable(loaded: &LoadedKey, flags: &IdentityFlags) -> UsableKey {
    let setting = if flags.key.key.is_some() {
        "--key"
    } else {
        "MILLSTREAM_KEY"
    };
    let (source, path) = match &loaded.origin {
        KeyOrigin::Unknown => ("an unknown place".to_owned(), None),
        KeyOrigin::Text => ("the text of MILLSTREAM_KEY".to_owned(), None),
        KeyOrigin::File(path) => (format!("{setting} ({})", path.display()), Some(path)),
        KeyOrigin::OwnFile(path) => (
            format!("the user's own directory ({})", path.display()),
            Some(path),
        ),
    };
    UsableKey {
        source,
        role: match &loaded.keys.own {
            KeyMaterial::Cluster(_) => None,
            KeyMaterial::Role(key) => Some(key.role()),
        },
        fingerprint: loaded.keys.own.public().fingerprint(),
        accepted: loaded.keys.accepted.len(),
        is_named: loaded.explicitly_given,
        open_folder: path.and_then(|path| open_folder(path)),
    }
}

/// Returns the folder of a file if other users may replace files in the folder.
fn open_folder(file: &Path) -> Option<(PathBuf, u32)> {
    let folder = file.canonicalize().ok()?.parent()?.to_owned();
    let mode = folder.metadata().ok()?.permissions().mode() & 0o7777;
    // In a folder with the sticky bit, users may replace only their own files.
    let is_open = mode & 0o022 != 0 && mode & 0o1000 == 0;
    is_open.then_some((folder, mode))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::args::KeyFlag;

    fn flags(path: &Path) -> IdentityFlags {
        IdentityFlags {
            key: KeyFlag {
                key: Some(path.display().to_string()),
            },
            revoked: None,
        }
    }

    #[test]
    fn facts_name_a_key_without_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("read.key");
        let cluster = millstream::link::ClusterKey::generate().unwrap();
        let text = cluster.role_key(Role::Read).to_text();
        fs::write(&path, &text).unwrap();
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        mode(&path, 0o644);
        let (open, _) = gather(&flags(&path));
        assert!(
            matches!(&open, IdentityFacts::Unusable(reason) if reason.contains("chmod 600")),
            "{open:?}"
        );
        mode(&path, 0o600);
        mode(folder.path(), 0o777);
        let (facts, loaded) = gather(&flags(&path));
        let IdentityFacts::Usable(key) = &facts else {
            panic!("{facts:?}");
        };
        assert_eq!(key.role, Some(Role::Read));
        assert!(loaded.is_some() && key.is_named && key.source.starts_with("--key ("));
        assert_eq!(key.open_folder.as_ref().map(|(_, mode)| *mode), Some(0o777));
        assert!(!format!("{facts:?}").contains(&text));
    }
}
