//! The operation `range`, which yields the integers of a range.

mod definition;
pub(crate) mod exec;

pub use definition::Range;
