//! What was read of stores, kept on a local disk: blocks of objects, each under what tells it from every other, the object's
//! version included. Bounded, the least recently used goes first; shared by processes; believed only when its checksum agrees.

mod entry;
mod folder;
mod keeper;
mod key;

pub(super) use keeper::Cache;
pub(super) use key::{KeptVersion, Key, Place};
