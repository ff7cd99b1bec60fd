//! The operations, one per file.

mod argument;
mod assert_cardinality;
mod batch;
mod body;
mod bucket;
mod cache;
mod concatenate;
#[cfg(feature = "images")]
mod decode_image;
mod enumerate;
#[cfg(feature = "saved")]
mod file_cache;
mod files;
mod filter;
mod flat_map;
mod group_by_window;
mod groups;
mod ignore_errors;
mod interleave;
#[cfg(feature = "saved")]
mod keeping;
mod map;
mod pack_sequences;
mod padded_batch;
mod padding;
mod parallel_interleave;
mod parallel_map;
mod pick;
mod positions;
mod prefetch;
mod ragged_batch;
mod random;
#[cfg(feature = "images")]
mod random_resized_crop;
mod read_ahead;
mod rebatch;
mod reduce;
mod rejection_resample;
mod repeat;
#[cfg(feature = "images")]
mod resize;
mod rows;
mod scan;
mod service;
mod shard;
mod shuffle;
mod shuffle_and_repeat;
mod skip;
#[cfg(feature = "saved")]
mod snapshot;
mod source;
mod statistics;
mod take;
mod take_while;
mod tensor_slices;
mod turns;
mod unbatch;
mod unique;
mod window;
mod zip;

pub(crate) use argument::Argument;
pub(crate) use assert_cardinality::AssertCardinality;
pub(crate) use batch::Batch;
pub(crate) use body::Body;
pub(crate) use bucket::Bucket;
pub(crate) use cache::Cache;
pub(crate) use concatenate::Concatenate;
#[cfg(feature = "images")]
pub(crate) use decode_image::DecodeImageCall;
pub(crate) use enumerate::Enumerate;
#[cfg(feature = "saved")]
pub(crate) use file_cache::FileCache;
pub(crate) use files::Files;
pub(crate) use filter::{Filter, Test};
pub(crate) use flat_map::FlatMap;
pub(crate) use group_by_window::{GroupByWindow, WindowSize};
pub(crate) use ignore_errors::IgnoreErrors;
pub(crate) use interleave::Interleave;
#[cfg(feature = "saved")]
pub(crate) use keeping::Keeping;
pub(crate) use map::{Map, RegisteredCall};
pub(crate) use pack_sequences::PackSequences;
pub(crate) use padded_batch::PaddedBatch;
pub(crate) use padding::Padding;
pub(crate) use parallel_interleave::ParallelInterleave;
pub(crate) use parallel_map::ParallelMap;
pub(crate) use pick::{Choices, Draws, Pick};
pub(crate) use positions::Positions;
pub(crate) use prefetch::Prefetch;
pub(crate) use ragged_batch::RaggedBatch;
pub(crate) use random::Random;
#[cfg(feature = "images")]
pub(crate) use random_resized_crop::RandomResizedCropCall;
pub(crate) use rebatch::Rebatch;
pub(crate) use reduce::Reduce;
pub(crate) use rejection_resample::RejectionResample;
pub(crate) use repeat::Repeat;
#[cfg(feature = "images")]
pub(crate) use resize::ResizeCall;
pub(crate) use rows::Rows;
pub(crate) use scan::Scan;
pub(crate) use service::Service;
pub(crate) use shard::Shard;
pub(crate) use shuffle::Shuffle;
pub(crate) use shuffle_and_repeat::ShuffleAndRepeat;
pub(crate) use skip::Skip;
#[cfg(feature = "saved")]
pub(crate) use snapshot::Snapshot;
pub(crate) use source::Registered;
pub(crate) use statistics::Statistics;
pub(crate) use take::Take;
pub(crate) use take_while::TakeWhile;
pub(crate) use tensor_slices::{slice, tensors};
pub(crate) use unbatch::Unbatch;
pub(crate) use unique::Unique;
pub(crate) use window::Window;
pub(crate) use zip::Zip;
