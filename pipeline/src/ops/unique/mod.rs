//! The operation `unique`, which drops repeated elements.

mod definition;
pub(crate) mod exec;

pub use definition::Unique;
