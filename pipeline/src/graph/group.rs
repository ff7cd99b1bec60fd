//! Parameters of the operations that make one element of several, or a dataset of each group of elements.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::definition::{BUFFER_MAX, Graph};

/// Parameters of `padded_batch`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct PaddedBatch {
    /// Elements per batch, at least 1.
    #[n(0)]
    pub size: u64,
    /// Whether a last batch of fewer elements is dropped.
    #[n(1)]
    pub drop_remainder: bool,
    /// The shape that each component is padded to, one a component: where a dimension is absent, to the longest in the
    /// batch. Empty = the shapes that the elements have, unknown dimensions padded.
    #[n(2)]
    pub shapes: Vec<Vec<Option<u64>>>,
    /// What each component is padded with, one a component: the little-endian bytes of an item. Empty = zeros and empty
    /// strings.
    #[n(3)]
    pub values: Vec<ByteVec>,
}

/// Parameters of `group_by_window`.
#[derive(Debug, Clone, PartialEq)]
pub struct Grouping {
    /// Makes an `i64` of an element: maps over its argument.
    pub key: Graph,
    /// How many elements of one key are reduced together.
    pub size: WindowSize,
    /// The dataset of a window, which is the argument.
    pub reduce: Graph,
}

/// How many elements a window has, at least 1.
#[derive(Debug, Clone, PartialEq)]
pub enum WindowSize {
    /// As many for every key.
    Fixed(u64),
    /// What maps make of the key, an `i64`.
    ByKey(Graph),
}

/// Parameters of `window`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Window {
    /// Elements of a window, at least 1.
    #[n(0)]
    pub size: u64,
    /// Elements of the input from the beginning of one window to that of the next, at least 1.
    #[n(1)]
    pub shift: u64,
    /// Elements of the input from one in a window to the next, at least 1.
    #[n(2)]
    pub stride: u64,
    /// Whether last windows of fewer elements are dropped.
    #[n(3)]
    pub drop_remainder: bool,
}

impl Window {
    /// Elements of the input from the first of a whole window to its last.
    pub(crate) fn span(&self) -> u64 {
        (self.size - 1).saturating_mul(self.stride).saturating_add(1)
    }

    /// What no window can be like.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.size == 0 || self.shift == 0 || self.stride == 0 {
            return Err("has a size, shift or stride of 0; the least is 1".to_owned());
        }
        if self.span() > BUFFER_MAX {
            return Err(format!(
                "holds {} elements at once, the limit is {BUFFER_MAX}",
                self.span()
            ));
        }
        Ok(())
    }
}

/// Parameters of `bucket_by_sequence_length`: bucket 0 has the elements shorter than the first boundary, each further one
/// those from its boundary on.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Buckets {
    /// The lengths at which a bucket begins, ascending.
    #[n(0)]
    pub boundaries: Vec<i64>,
    /// Elements of a batch, at least 1: one for each bucket, so one more than boundaries.
    #[n(1)]
    pub batch_sizes: Vec<u64>,
    /// How elements of one batch are made equally long.
    #[n(2)]
    pub padding: Padding,
    /// Whether last batches of fewer elements are dropped.
    #[n(3)]
    pub drop_remainder: bool,
}

impl Buckets {
    /// The bucket of elements of this length.
    pub(crate) fn of(&self, length: i64) -> usize {
        self.boundaries.partition_point(|boundary| *boundary <= length)
    }

    /// What no buckets can be like.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.boundaries.is_empty() || !self.boundaries.is_sorted_by(|one, next| one < next) {
            return Err("has boundaries that do not ascend, or none".to_owned());
        }
        if self.batch_sizes.len() != self.boundaries.len() + 1 {
            return Err(format!(
                "has {} batch sizes for {} boundaries, which make {} buckets",
                self.batch_sizes.len(),
                self.boundaries.len(),
                self.boundaries.len() + 1
            ));
        }
        match self
            .batch_sizes
            .iter()
            .find(|size| **size == 0 || **size > BUFFER_MAX)
        {
            Some(size) => Err(format!("batch size of {size} is not within 1..={BUFFER_MAX}")),
            None => Ok(()),
        }
    }
}

/// How elements of one batch are made equally long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum Padding {
    /// Unknown dimensions are padded to the longest in the batch.
    #[default]
    #[n(0)]
    Longest,
    /// Unknown dimensions are padded to the longest that the bucket allows, one less than where the next begins. The last
    /// bucket allows nothing.
    #[n(1)]
    Boundary,
    /// Not at all: elements of one bucket have one shape.
    #[n(2)]
    None,
}
