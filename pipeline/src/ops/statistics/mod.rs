//! `statistics`: measurements of the elements that pass.

mod definition;
pub(crate) mod exec;

pub use definition::Statistics;
