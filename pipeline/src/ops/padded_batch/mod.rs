//! `padded_batch`: consecutive elements padded to one shape and stacked.

mod definition;
pub(crate) mod exec;

pub use definition::PaddedBatch;
pub(crate) use definition::padded_shapes;
