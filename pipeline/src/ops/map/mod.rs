//! The operation `map`, which applies a function to every element.

mod definition;
pub(crate) mod exec;
pub(crate) mod parallel;

pub use definition::Map;
