//! `ignore_errors`: the elements between those that fail.

mod definition;
pub(crate) mod exec;

pub use definition::IgnoreErrors;
