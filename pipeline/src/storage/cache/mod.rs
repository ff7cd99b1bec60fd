//! The cache of stores on a local disk: blocks of objects, by a key that includes the object's version.
//!
//! Its size is limited and the least recently used blocks go first. Processes share it, and a block counts
//! only when its checksum agrees.

mod entry;
mod folder;
mod keeper;
mod key;

pub(super) use keeper::Cache;
pub(super) use key::{KeptVersion, Key, Place};
