//! The operation `statistics`, which measures the elements that pass through.

mod definition;
pub(crate) mod exec;

pub use definition::Statistics;
