//! Tests of the pipeline through its public interface.
//!
//! - `model`: random chains of operations, compared with a naive model; counts, compared with the
//!   analysis
//! - `changed_files`: files that were changed after the plan was made
//! - `combined`: datasets that combine several datasets
//! - `states`: a saved and restored executor continues as if it had not been interrupted
//! - `by_split`: datasets that run on each split alone yield the same elements on any workers
//! - `splits`: workers that share a pool of splits yield each element once, and finish every lease
//! - `batches`: batches of elements with different shapes
//! - `bombs`: files that claim far more than they contain
//! - `buffers`: prefetched elements are yielded at once, within the byte budget
//! - `expressions`: expressions over the components of elements
//! - `damage`: files that are cut short or overwritten
//! - `explain`: reports about the stages of a running pipeline
//! - `failing_sources`: error policies for failing sources
//! - `failures`: errors name the failed operation and the cause, without panics or hangs
//! - `folds`: operations that carry a state
//! - `formats`: files of tables and arrays
//! - `full_shuffles`: shuffles that take in a whole source
//! - `fuzz`: fuzz targets of everything that the pipeline reads, with their corpora
//! - `graphs`: the encoding and the analysis of graphs
//! - `held`: the present version reads what earlier versions wrote
//! - `images`: decoded and changed pictures
//! - `interleave`: interleaved datasets that are read ahead
//! - `kept`: elements kept in memory and in files
//! - `lineage`: the places of the records of an element, without reading them
//! - `memory`: the memory of a process stays within 1.25 times the byte budget
//! - `naive_models`: operations that the random chains do not cover
//! - `listings`: the files of a listing and their order
//! - `on_error`: error policies for failing elements
//! - `parsing`: components with TensorFlow examples, JSON and CSV
//! - `packing`: sequences of tokens packed into rows
//! - `packs`: the elements in packs equal the yielded elements
//! - `promises`: rules that every operation must satisfy
//! - `parts`: files that are read in parts
//! - `randomness`: draws that repeat, and draws that differ
//! - `quarantine`: elements that failed, which later attempts at their split leave out
//! - `records`: record files
//! - `rewrites`: graphs that are rewritten before their execution
//! - `rows`: rows of batches are computed directly in the batch
//! - `shared_passes`: passes of a service that has other readers
//! - `sharding`: the elements of a shard, and shards that are refused
//! - `shards`: WebDataset shards and images
//! - `sources`: sources without files: tensors and numbers
//! - `steps`: operations whose parameters are values only
//! - `storage`: files in object stores and on HTTP servers
//! - `text`: the lines of text files
//! - `tokens`: texts converted to token ids
//! - `tuning`: values chosen by measurement, and options for threads and memory
//! - `workers`: a dataset divided among workers
//! - `worker_files`: a dataset divided among workers by files
//! - `written_by_others`: files written by other libraries
#![expect(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

/// The allocator of the service's programs, so that memory measurements agree with those programs.
#[cfg(not(fuzzing))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod batches;
#[cfg(all(target_os = "linux", feature = "formats"))]
mod bombs;
mod buffers;
mod by_split;
mod changed_files;
mod combined;
mod continuing;
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
mod lineage;
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
mod quarantine;
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
mod splits_ahead;
mod states;
mod steps;
#[cfg(all(feature = "records", feature = "storage"))]
mod storage;
mod support;
mod text;
#[cfg(feature = "tokenise")]
mod tokens;
mod tuning;
#[cfg(feature = "webdataset")]
mod worker_files;
mod workers;
#[cfg(all(
    feature = "arrow",
    feature = "mds",
    feature = "numpy",
    feature = "records",
    feature = "webdataset"
))]
mod written_by_others;
