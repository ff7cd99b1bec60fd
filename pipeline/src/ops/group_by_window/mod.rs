//! `group_by_window`: a dataset of each group of elements with one key.

mod definition;
pub(crate) mod exec;

pub use definition::{Grouping, WindowSize};
