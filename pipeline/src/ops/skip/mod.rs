//! `skip`: all but the first elements.

mod definition;
pub(crate) mod exec;

pub use definition::Skip;
