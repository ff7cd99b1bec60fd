//! The operation `filter`, which keeps the elements for which a predicate holds.

mod definition;
pub(crate) mod exec;

pub use definition::Filter;
