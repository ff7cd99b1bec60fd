//! The operation `unbatch`, which yields the rows of every element one by one.

mod definition;
pub(crate) mod exec;

pub use definition::Unbatch;
