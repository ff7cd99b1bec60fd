//! `zip`: the elements of several inputs side by side.

mod definition;
pub(crate) mod exec;

pub use definition::Zip;
