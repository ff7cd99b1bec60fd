//! `window`: a dataset of each window of consecutive elements.

mod definition;
pub(crate) mod exec;

pub use definition::{Window, Windows};
