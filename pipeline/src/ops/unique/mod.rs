//! `unique`: each element once, however often it comes.

mod definition;
pub(crate) mod exec;

pub use definition::Unique;
