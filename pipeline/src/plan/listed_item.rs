//! A split of a source of files, as it stands in a plan.

use crate::storage::FileVersion;

/// A split that is a file, or a part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedItem {
    /// The payload of the split: the path of the file, or a [`FilePart`](crate::graph::FilePart).
    pub payload: Vec<u8>,
    /// The version of the file when it was listed; `None` if it is unknown.
    pub version: Option<FileVersion>,
}

impl ListedItem {
    /// Makes the split of a file of an unknown version.
    pub fn new(payload: impl Into<Vec<u8>>) -> ListedItem {
        ListedItem {
            payload: payload.into(),
            version: None,
        }
    }
}
