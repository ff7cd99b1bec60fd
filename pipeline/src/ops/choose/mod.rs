//! The operation `choose`, which takes each element from the input that a dataset of indices names.

mod definition;
pub(crate) mod exec;

pub use definition::{Choose, Choosing};
