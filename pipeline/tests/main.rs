//! The pipeline held against its promises, through its public interface.
//!
//! - `model`: random chains of operations against a naive model on vectors; counts against the analysis
//! - `combined`: datasets made of several
//! - `states`: an executor saved and restored goes on as if nothing had happened
//! - `splits`: workers fed from one pool of splits see the dataset exactly once, and account for every lease
//! - `batches`: batches of elements of different shapes
//! - `bombs`: files that claim far more than they hold
//! - `buffers`: what is computed ahead withholds nothing and stays within the byte budget
//! - `expressions`: what is computed of components
//! - `damage`: files that are cut short or overwritten
//! - `explain`: what is told of the stages of a running pipeline
//! - `failing_sources`: what becomes of what sources fail at
//! - `failures`: errors name what failed and whose fault it is; nothing panics, nothing hangs
//! - `folds`: operations that carry a state
//! - `formats`: files of tables and arrays
//! - `full_shuffles`: shuffles that take in a whole source
//! - `fuzz`: fuzz targets of all that is read, with their corpora
//! - `graphs`: encoding and analysis
//! - `held`: what an earlier version wrote is read as it was meant
//! - `images`: pictures decoded and changed
//! - `interleave`: datasets that are read ahead by turns
//! - `kept`: elements kept in memory and in files
//! - `memory`: the memory of a process stays within the byte budget and a quarter
//! - `naive_models`: what the random chains do not have
//! - `listings`: which files there are and in which order
//! - `on_error`: what becomes of elements that fail
//! - `parsing`: examples, JSON, CSV
//! - `packing`: sequences of tokens in rows
//! - `packs`: what is written into packs is what is yielded
//! - `promises`: every operation does what is promised of all of them
//! - `parts`: files that are read in parts
//! - `randomness`: what is drawn again, and what is drawn alike
//! - `records`: record files
//! - `rewrites`: a graph that is changed before it is executed
//! - `rows`: rows of batches are computed where they stay
//! - `shared_passes`: passes of a service that others read too
//! - `sharding`: what a shard of a dataset holds, and when it is refused
//! - `shards`: WebDataset shards and images
//! - `sources`: tensors and numbers without files
//! - `steps`: operations that need parameters alone
//! - `storage`: files of stores and servers
//! - `text`: the lines of text files
//! - `tokens`: texts as the ids of their tokens
//! - `tuning`: what is chosen by measurement, and options of threads and memory
//! - `workers`: a dataset divided among workers
//! - `written_by_others`: files of the libraries that users write such files with
#![expect(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

/// The allocator of the service's programs, so that memory figures agree with theirs.
#[cfg(not(fuzzing))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod batches;
#[cfg(all(target_os = "linux", feature = "formats"))]
mod bombs;
mod buffers;
mod combined;
#[cfg(all(
    feature = "arrow",
    feature = "csv",
    feature = "images",
    feature = "json",
    feature = "mds",
    feature = "numpy",
    feature = "records",
    feature = "saved",
    feature = "sqlite",
    feature = "webdataset"
))]
mod damage;
mod explain;
mod expressions;
mod failing_sources;
mod failures;
mod folds;
mod formats;
mod full_shuffles;
#[cfg(all(feature = "formats", feature = "text"))]
mod fuzz;
mod graphs;
#[cfg(all(feature = "formats", feature = "text", feature = "tokenise"))]
mod held;
#[cfg(feature = "images")]
mod images;
mod interleave;
#[cfg(feature = "saved")]
mod kept;
mod listings;
#[cfg(target_os = "linux")]
mod memory;
mod model;
#[cfg(all(feature = "formats", feature = "text"))]
mod naive_models;
mod on_error;
mod packing;
mod packs;
#[cfg(feature = "text")]
mod parsing;
#[cfg(feature = "records")]
mod parts;
#[cfg(all(
    feature = "arrow",
    feature = "csv",
    feature = "images",
    feature = "json",
    feature = "mds",
    feature = "numpy",
    feature = "records",
    feature = "saved",
    feature = "sqlite",
    feature = "webdataset"
))]
mod promises;
mod randomness;
#[cfg(feature = "records")]
mod records;
mod rewrites;
mod rows;
mod sharding;
#[cfg(all(feature = "images", feature = "webdataset"))]
mod shards;
mod shared_passes;
mod sources;
mod splits;
mod states;
mod steps;
#[cfg(all(feature = "records", feature = "storage"))]
mod storage;
mod support;
mod text;
#[cfg(feature = "tokenise")]
mod tokens;
mod tuning;
mod workers;
#[cfg(all(
    feature = "arrow",
    feature = "mds",
    feature = "numpy",
    feature = "records",
    feature = "webdataset"
))]
mod written_by_others;
