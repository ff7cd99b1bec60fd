//! The definition of datasets and their execution. Knows elements, and nothing of how they travel.
//!
//! - [`graph`]: the pure half. A dataset is a graph of operations; here it is built, encoded and analysed.
//! - [`plan`]: what an iteration fixes before it starts: how many splits each source has, and which files
//!   there are.
//! - [`storage`]: where the bytes of files come from.
//! - `saved`: how elements lie in files; with the feature `saved`.
//! - `image`: pictures, from encoded bytes to pixels; with the feature `images`.
//! - `record`: how records lie in files; with the feature `records`.
//! - [`exec`]: the graph as a tree of pull iterators, from sources to elements written into their slots.

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
