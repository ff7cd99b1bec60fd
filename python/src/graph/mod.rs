//! Datasets: chains of operations. Each step returns a new object, which is checked at once.
//!
//! - `dataset`: the object, its properties, and its iterator
//! - `sources`: sources of elements; `files`: file formats
//! - `steps`: operations by name, and changes to the last operation; `parameters`: parameters of operations
//! - `functions`: operations that take functions
//! - `images`: image operations

mod dataset;
mod files;
mod functions;
mod images;
mod parameters;
mod sources;
mod steps;

pub(crate) use dataset::Graph;
