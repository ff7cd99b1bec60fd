//! The operation `concatenate`, which yields the elements of one input after the other.

mod definition;
pub(crate) mod exec;

pub use definition::Concatenate;
