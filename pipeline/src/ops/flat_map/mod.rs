//! `flat_map`: a dataset for each element, one after the other.

mod definition;
pub(crate) mod exec;

pub use definition::{FlatMap, RegisteredFlatMap};
