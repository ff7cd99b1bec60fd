//! The operation `argument`, which stands for the argument of a function as a dataset of one element.

mod definition;
pub(crate) mod exec;

pub use definition::Argument;
pub(crate) use definition::body;
