//! A file that a pattern matches.

/// The most files that a pattern may match.
pub const FILES_MAX: usize = 1 << 20;

/// A file that a pattern matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The path by which [`Storage::open`](super::Storage::open) opens it.
    pub path: String,
    /// The size, if that could be told.
    pub size_bytes: Option<u64>,
}
