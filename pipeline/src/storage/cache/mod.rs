//! The cache of remote objects on a local disk: blocks, under keys that include the version of the object.
//!
//! The cache has a size limit, and deletes the least recently used blocks first. Processes share the cache,
//! and use a block only if its checksum is correct.

mod entry;
mod folder;
mod keeper;
mod key;

pub(super) use keeper::Cache;
pub(super) use key::{KeptVersion, Key, Place};
