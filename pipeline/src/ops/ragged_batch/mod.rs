//! `ragged_batch`: consecutive elements as one of ragged tensors.

mod definition;
pub(crate) mod exec;

pub use definition::RaggedBatch;
pub(crate) use definition::ragged_rank;
