//! The files that a pattern matches.

use super::version::FileVersion;

/// The maximum number of files that a pattern may match.
pub const FILES_MAX: usize = 1 << 20;

/// A file that matches a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The path by which [`Storage::open`](super::Storage::open) opens the file.
    pub path: String,
    /// The length of the file in bytes; `None` if it is unknown.
    pub size_bytes: Option<u64>,
    /// The version of the file; `None` if it is unknown.
    pub version: Option<FileVersion>,
}
