//! `shuffle`: a uniform draw from a buffer of elements.

mod definition;
pub(crate) mod exec;

pub use definition::Shuffle;
