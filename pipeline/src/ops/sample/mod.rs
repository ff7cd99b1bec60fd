//! The operation `sample`, which takes each element from a randomly drawn input.

mod definition;
pub(crate) mod exec;
pub(crate) mod pick;

pub use definition::Sample;
