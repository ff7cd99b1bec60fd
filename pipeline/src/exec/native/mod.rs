//! The calls of native functions: one file each, and the line that prepares it.
//!
//! A call is prepared once for all elements of one spec, whatever patterns, vocabularies or models that takes.

mod compute;
mod family;
mod parse_int;
mod select;

pub(crate) use family::{Shared, prepare};
