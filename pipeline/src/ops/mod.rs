//! The operations of datasets. Each operation has a folder with its definition, its execution and its
//! tests.
//!
//! - [`table`]: the list of all operations, through which the codec and the executor find each
//!   operation by its name

pub(crate) mod argument;
pub(crate) mod assert_cardinality;
pub(crate) mod batch;
pub(crate) mod bucket;
pub(crate) mod cache;
pub(crate) mod choose;
pub(crate) mod chunks;
pub(crate) mod concatenate;
pub(crate) mod counter;
pub(crate) mod enumerate;
#[cfg(test)]
mod every;
pub(crate) mod files;
pub(crate) mod filter;
pub(crate) mod flat_map;
pub(crate) mod group_by_window;
pub(crate) mod ignore_errors;
pub(crate) mod interleave;
pub(crate) mod map;
pub(crate) mod options;
pub(crate) mod pack_sequences;
pub(crate) mod padded_batch;
pub(crate) mod prefetch;
pub(crate) mod ragged_batch;
pub(crate) mod random;
pub(crate) mod range;
pub(crate) mod read;
pub(crate) mod rebatch;
pub(crate) mod reduce;
pub(crate) mod rejection_resample;
pub(crate) mod repeat;
pub(crate) mod sample;
pub(crate) mod scan;
pub(crate) mod service;
pub(crate) mod shard;
pub(crate) mod shuffle;
pub(crate) mod shuffle_and_repeat;
pub(crate) mod skip;
pub(crate) mod snapshot;
pub(crate) mod source;
pub(crate) mod statistics;
mod table;
pub(crate) mod take;
pub(crate) mod take_while;
pub(crate) mod tensor_slices;
pub(crate) mod tensors;
pub(crate) mod unbatch;
pub(crate) mod unique;
pub(crate) mod window;
pub(crate) mod write_chunk;
pub(crate) mod zip;

pub use table::{OperationError, operations};
