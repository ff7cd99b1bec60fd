//! `tensors`: one element that the graph holds.

mod definition;
pub(crate) mod exec;

pub use definition::Tensors;
