//! `range`: the integers of a range.

mod definition;
pub(crate) mod exec;

pub use definition::Range;
