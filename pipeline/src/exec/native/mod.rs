//! The calls of native functions, with one file for each function.
//!
//! A call is prepared once for all elements of one spec, with all its patterns, vocabularies or models.

mod compute;
#[cfg(feature = "text")]
mod csv_line;
mod example;
mod family;
#[cfg(feature = "text")]
mod json;
mod made;
mod parse_int;
mod select;
mod split_ragged;
#[cfg(feature = "tokenise")]
mod tokenise;

pub(crate) use family::{Shared, missing_feature, prepare};
