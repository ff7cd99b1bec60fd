//! `map`: a function applied to every element.

mod definition;
pub(crate) mod exec;
pub(crate) mod parallel;

pub use definition::Map;
