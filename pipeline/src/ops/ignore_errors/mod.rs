//! The operation `ignore_errors`, which skips elements that fail.

mod definition;
pub(crate) mod exec;

pub use definition::IgnoreErrors;
