//! The pipeline held against its promises, through its public interface.
//!
//! - `model`: random chains of operations against a naive model on vectors; counts against the analysis
//! - `combined`: datasets made of several
//! - `states`: an executor saved and restored goes on as if nothing had happened
//! - `splits`: workers fed from one pool of splits see the dataset exactly once, and account for every lease
//! - `batches`: batches of elements of different shapes
//! - `buffers`: what is computed ahead withholds nothing and stays within the byte budget
//! - `failures`: errors name what failed and whose fault it is; nothing panics, nothing hangs
//! - `graphs`: encoding and analysis
//! - `interleave`: datasets that are read ahead by turns
//! - `listings`: which files there are and in which order
//! - `packs`: what is written into packs is what is yielded
//! - `randomness`: what is drawn anew, and what is drawn alike
//! - `records`: record files
//! - `sharding`: what a shard of a dataset holds, and when it is refused
//! - `shards`: WebDataset shards and images
//! - `sources`: tensors and numbers without files
//! - `text`: the lines of text files
//! - `workers`: a dataset divided among workers
#![expect(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

mod batches;
mod buffers;
mod combined;
mod failures;
mod graphs;
mod interleave;
mod listings;
mod model;
mod packs;
mod randomness;
#[cfg(feature = "records")]
mod records;
mod sharding;
#[cfg(all(feature = "images", feature = "webdataset"))]
mod shards;
mod sources;
mod splits;
mod states;
mod support;
mod text;
mod workers;
