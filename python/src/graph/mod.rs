//! Datasets: chains of operations. Each step returns a new object, which is checked at once.
//!
//! - `dataset`: the object, its properties, and its iterator
//! - `sources`: tensors that the definition holds, and saved elements
//! - `steps`: operations by name, and changes to the last operation; `parameters`: parameters of operations
//! - `functions`: operations that take functions

mod dataset;
mod functions;
mod parameters;
mod sources;
mod steps;

pub(crate) use dataset::Graph;
