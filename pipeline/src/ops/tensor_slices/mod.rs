//! The operation `tensor_slices`, which yields the slices of constant tensors in the graph.

mod definition;
pub(crate) mod exec;

pub use definition::TensorSlices;
