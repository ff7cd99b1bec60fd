//! The operation `flat_map`, which turns each element into a dataset and yields these datasets one
//! after the other.

mod definition;
pub(crate) mod exec;

pub use definition::{FlatMap, RegisteredFlatMap};
