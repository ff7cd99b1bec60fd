//! The operation `group_by_window`, which collects elements of equal keys and turns each window into a
//! dataset.

mod definition;
pub(crate) mod exec;

pub use definition::{Grouping, WindowSize};
