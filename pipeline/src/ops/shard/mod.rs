//! The operation `shard`, which keeps every n-th element.

mod definition;
pub(crate) mod exec;
mod sharding;

pub use definition::Shard;
pub use sharding::{ShardBy, ShardingError, Share};
