//! The operation `ragged_batch`, which combines consecutive elements into ragged tensors.

mod definition;
pub(crate) mod exec;

pub use definition::RaggedBatch;
pub(crate) use definition::ragged_rank;
