//! The operation `tensors`, which yields one constant element in the graph.

mod definition;
pub(crate) mod exec;

pub use definition::Tensors;
