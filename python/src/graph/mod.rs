//! Datasets: chains of operations, each step a new object that is checked at once.
//!
//! - `dataset`: the object, what is known of it, and its iterator
//! - `sources`: tensors that the definition holds, and saved elements
//! - `steps`: operations by name, and what changes the one before; `parameters`: their parameters
//! - `functions`: operations that take functions

mod dataset;
mod functions;
mod parameters;
mod sources;
mod steps;

pub(crate) use dataset::Graph;
