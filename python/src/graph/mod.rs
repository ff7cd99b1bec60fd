//! Datasets: chains of operations, each step a new object that is checked at once.
//!
//! - `dataset`: the object, what is known of it, and its iterator
//! - `sources`: where elements come from; `files`: formats of files
//! - `steps`: operations by name, and what changes the one before; `parameters`: their parameters
//! - `functions`: operations that take functions
//! - `images`: pictures

mod dataset;
mod files;
mod functions;
mod images;
mod parameters;
mod sources;
mod steps;

pub(crate) use dataset::Graph;
