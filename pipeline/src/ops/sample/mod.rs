//! `sample`: each element from an input that is drawn for it.

mod definition;
pub(crate) mod exec;
pub(crate) mod pick;

pub use definition::Sample;
