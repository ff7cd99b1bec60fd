//! Datasets: chains of operations, each step a new object that is checked at once.
//!
//! - `dataset`: the object, what is known of it, and its iterator
//! - `sources`: where elements come from; `files`: formats of files
//! - `steps`: operations with plain parameters; `functions`: those that take functions
//! - `images`: pictures

mod dataset;
mod files;
mod functions;
mod images;
mod sources;
mod steps;

pub(crate) use dataset::Graph;
