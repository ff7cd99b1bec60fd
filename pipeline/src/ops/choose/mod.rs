//! `choose`: each element from the input that a dataset of numbers says.

mod definition;
pub(crate) mod exec;

pub use definition::{Choose, Choosing};
