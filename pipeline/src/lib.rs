//! The definition of datasets and their execution. The crate knows elements, but not how elements travel
//! between hosts.
//!
//! - [`graph`]: the definition of a dataset as a graph of operations; builds, encodes and analyses graphs,
//!   without I/O.
//! - [`plan`]: the facts that an iteration fixes before it starts: the number of splits of each source, and
//!   the list of files.
//! - [`storage`]: access to files, on local disks, in object stores and on HTTP servers.
//! - `saved`: the file format of saved elements; with the feature `saved`.
//! - `image`: the decoding and transformation of pictures; with the feature `images`.
//! - `record`: the readers and writers of record files; with the feature `records`.
//! - [`exec`]: the executor, a tree of pull iterators from the sources to elements written into their slots.

pub mod exec;
pub mod graph;
#[cfg(feature = "images")]
mod image;
mod ops;
pub mod plan;
#[cfg(feature = "records")]
pub mod record;
mod rewrite;
#[cfg(feature = "saved")]
mod saved;
pub mod storage;
