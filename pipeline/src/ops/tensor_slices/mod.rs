//! `tensor_slices`: the slices of tensors that the graph holds.

mod definition;
pub(crate) mod exec;

pub use definition::TensorSlices;
