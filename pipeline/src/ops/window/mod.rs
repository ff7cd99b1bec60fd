//! The operation `window`, which turns each window of consecutive elements into a dataset.

mod definition;
pub(crate) mod exec;

pub use definition::{Window, Windows};
