//! The operation `read`, which reads the files whose paths arrive as elements.

mod definition;
pub(crate) mod exec;
mod listing;

pub use definition::Read;
pub(crate) use listing::{is_of_shards, with_example};
