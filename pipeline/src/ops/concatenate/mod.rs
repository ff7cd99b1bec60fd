//! `concatenate`: the elements of several inputs, one input after the other.

mod definition;
pub(crate) mod exec;

pub use definition::Concatenate;
