//! The operation `batch`, which stacks consecutive elements.

mod definition;
pub(crate) mod exec;

pub use definition::Batch;
