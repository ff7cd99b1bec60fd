//! The definition of `bucket_by_sequence_length`, which batches elements of similar length.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;
use minicbor::{Decode, Encode};
use smallvec::{SmallVec, smallvec};

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::thinned;
use crate::graph::codec::{Encoded, encoded};
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::function_spec::wants_number;
use crate::graph::limits::BUFFER_MAX;
use crate::graph::padded::{own_shapes, stacked};
use crate::graph::tree::Graph;
use crate::graph::tree::Role;
use crate::graph::tree::{Given, Op, Operation};
use crate::ops::argument::body;

/// The parameters of `bucket_by_sequence_length`. Bucket 0 takes the elements that are shorter than the
/// first boundary. Every further bucket takes the elements whose length is at least its boundary and
/// below the next boundary.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Buckets {
    /// The lengths at which a new bucket begins, in ascending order.
    #[n(0)]
    pub boundaries: Vec<i64>,
    /// The batch size of each bucket, at least 1. The list has one entry more than `boundaries`.
    #[n(1)]
    pub batch_sizes: Vec<u64>,
    /// The padding that gives all elements of a batch the same length.
    #[n(2)]
    pub padding: Padding,
    /// Whether to drop the last batch of a bucket if the batch is not full.
    #[n(3)]
    pub drop_remainder: bool,
}

impl Buckets {
    /// Returns the index of the bucket for elements of `length`.
    pub(crate) fn of(&self, length: i64) -> usize {
        self.boundaries.partition_point(|boundary| *boundary <= length)
    }

    /// Checks the boundaries and the batch sizes.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.boundaries.is_empty() || !self.boundaries.is_sorted_by(|one, next| one < next) {
            return Err("has no boundaries, or boundaries that do not ascend".to_owned());
        }
        if self.batch_sizes.len() != self.boundaries.len() + 1 {
            return Err(format!(
                "has {} batch sizes for {} boundaries, expected {} batch sizes: one per bucket",
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
            Some(size) => Err(format!("has a batch size of {size}, expected 1 to {BUFFER_MAX}")),
            None => Ok(()),
        }
    }
}

/// The padding that gives all elements of a batch the same length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum Padding {
    /// Pads unknown dimensions to the longest element of the batch.
    #[default]
    #[n(0)]
    Longest,
    /// Pads unknown dimensions to the longest length that the bucket accepts: the next bucket's
    /// boundary minus one. The last bucket has no longest length, so elements of the last bucket fail.
    #[n(1)]
    Boundary,
    /// Pads nothing: all elements of a batch need the same shape.
    #[n(2)]
    None,
}

/// The operation `bucket_by_sequence_length`.
#[derive(Debug, Clone, PartialEq)]
pub struct Bucketing {
    /// The function that returns the length of an element.
    pub length: Graph,
    /// The boundaries, batch sizes and padding of the buckets.
    pub buckets: Buckets,
}

impl Operation for Bucketing {
    fn name(&self) -> &'static str {
        "bucket_by_sequence_length"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(&self.buckets)
    }

    fn graphs(&self) -> SmallVec<[(&Graph, Role); 1]> {
        smallvec![(&self.length, Role::Value)]
    }

    fn graphs_mut(&mut self) -> SmallVec<[&mut Graph; 1]> {
        smallvec![&mut self.length]
    }

    fn check(&self, _: usize) -> Result<(), String> {
        self.buckets.check()
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        let input = given.input()?;
        wants_number("the length", &self.length, given.registry, input)?;
        bucket_spec(&self.buckets, input).map_err(|reason| given.mismatch(reason))
    }

    fn is_alike_on_splits(&self, _: Option<u64>) -> bool {
        false
    }

    fn drops_remainder(&self) -> bool {
        self.buckets.drop_remainder
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        given.count().map(thinned)
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("mixes positions")
    }
}

/// Decodes a `bucket_by_sequence_length` operation.
pub(crate) fn decode(encoded: &Encoded<'_>) -> Result<Op, GraphError> {
    Ok(Op::new(Bucketing {
        length: encoded.function(0, "length")?,
        buckets: encoded.params()?,
    }))
}

/// Returns the element spec of `bucket_by_sequence_length` over elements of the spec `input`.
pub(crate) fn bucket_spec(buckets: &Buckets, input: &ElementSpec) -> Result<ElementSpec, String> {
    let first = buckets.batch_sizes.first().copied();
    let one_size = first.filter(|first| buckets.batch_sizes.iter().all(|size| size == first));
    let size = one_size.filter(|_| buckets.drop_remainder);
    match buckets.padding {
        Padding::Longest | Padding::Boundary => stacked(input, &own_shapes(input)?, size),
        Padding::None => input.batched(size).map_err(|error| error.to_string()),
    }
}

impl Dataset {
    /// Batches elements of similar length. The chain of maps `length` takes an element and ends in its
    /// length, an `i64`. Yields a batch as soon as a bucket holds a full batch of elements. At the end
    /// of the input, yields the partial batches of all buckets, beginning with the bucket of the
    /// shortest elements.
    ///
    /// Works like `tf.data.Dataset.bucket_by_sequence_length`. [`Dataset::graph`] refuses boundaries
    /// that do not ascend, and a number of batch sizes that does not fit the boundaries.
    pub fn bucket_by_sequence_length(
        self,
        length: impl FnOnce(Dataset) -> Dataset,
        buckets: Buckets,
    ) -> Dataset {
        match body(length) {
            Ok(length) => self.then(Bucketing { length, buckets }),
            Err(error) => self.failed(error),
        }
    }
}
