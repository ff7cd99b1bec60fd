//! The operation `interleave`, which turns each element into a dataset and reads several of these
//! datasets in turn.

mod definition;
pub(crate) mod exec;
pub(crate) mod parallel;

pub use definition::Interleave;
