//! The origin of a process's key, for messages about refused connections. The origin never contains the key.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The place from which a process read its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeyOrigin {
    /// The program made the credentials itself.
    #[default]
    Unknown,
    /// The text of the key, in `MILLSTREAM_KEY`.
    Text,
    /// A file that the caller named.
    File(Arc<Path>),
    /// The file of this user's own key, because the caller named no key.
    OwnFile(Arc<Path>),
}

/// Writes the end of an error message. The end is empty if the origin is unknown.
impl fmt::Display for KeyOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyOrigin::Unknown => Ok(()),
            KeyOrigin::Text => f.write_str("; this process uses the key in the text of MILLSTREAM_KEY"),
            KeyOrigin::File(path) => write!(f, "; this process uses the key file {}", path.display()),
            KeyOrigin::OwnFile(path) => write!(
                f,
                "; this process uses its user's own key file {}, because MILLSTREAM_KEY is not set and no --key was given",
                path.display()
            ),
        }
    }
}
