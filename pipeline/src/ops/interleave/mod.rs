//! `interleave`: a dataset for each element, several of them by turns.

mod definition;
pub(crate) mod exec;
pub(crate) mod parallel;

pub use definition::Interleave;
