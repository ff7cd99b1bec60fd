//! The operation `shard`, which keeps every n-th element.

mod definition;
pub(crate) mod exec;
mod sharding;

pub use definition::Shard;
pub(crate) use sharding::draw_all_alike;
pub use sharding::{ShardBy, ShardingError, Share};
