//! The operation `enumerate`, which puts a number before every element.

mod definition;
pub(crate) mod exec;

pub use definition::Enumerate;
