//! `enumerate`: every element after its number.

mod definition;
pub(crate) mod exec;

pub use definition::Enumerate;
