//! `scan`: what a function makes of each element and a state that it changes.

mod definition;
pub(crate) mod exec;

pub use definition::Scan;
