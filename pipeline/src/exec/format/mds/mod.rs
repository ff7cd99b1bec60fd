//! MosaicML shards.
//!
//! - `shard`: where the samples of a shard lie, and what their columns are;
//! - `encoding`: the values of a column;
//! - `reader`: the samples as elements.

mod encoding;
mod reader;
mod shard;

pub(super) use reader::{Mds, describe};
