//! Readers of MosaicML shards.
//!
//! - `index`: the shards of a directory, as its index lists them;
//! - `shard`: the positions of the samples in a shard, and the columns of the samples;
//! - `encoding`: the values of a column;
//! - `reader`: the samples as elements.

mod encoding;
mod index;
mod reader;
mod shard;

pub(crate) use index::first;
pub(crate) use index::shards;
pub(crate) use reader::{Mds, describe};
