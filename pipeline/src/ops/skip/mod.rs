//! The operation `skip`, which drops the first elements.

mod definition;
pub(crate) mod exec;

pub use definition::Skip;
