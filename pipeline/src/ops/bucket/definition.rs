//! The definition of `bucket`: batches of elements of similar length.
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

/// Parameters of `bucket_by_sequence_length`: bucket 0 has the elements shorter than the first boundary, each
/// further one those from its boundary on.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Buckets {
    /// The lengths at which a bucket begins, ascending.
    #[n(0)]
    pub boundaries: Vec<i64>,
    /// Elements of a batch, at least 1: one for each bucket, so one more than boundaries.
    #[n(1)]
    pub batch_sizes: Vec<u64>,
    /// The padding that makes elements of one batch equally long.
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

    /// Checks the buckets.
    pub(crate) fn check(&self) -> Result<(), String> {
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

/// The padding that makes elements of one batch equally long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
#[cbor(index_only)]
pub enum Padding {
    /// Unknown dimensions are padded to the longest in the batch.
    #[default]
    #[n(0)]
    Longest,
    /// Unknown dimensions are padded to the longest that the bucket allows, one less than where the next
    /// begins. The last bucket allows nothing.
    #[n(1)]
    Boundary,
    /// Not at all: elements of one bucket have one shape.
    #[n(2)]
    None,
}

/// The operation `bucket_by_sequence_length`.
#[derive(Debug, Clone, PartialEq)]
pub struct Bucketing {
    /// Makes the length of an element.
    pub length: Graph,
    /// The lengths and sizes of the buckets.
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

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        given.count().map(thinned)
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("mixes positions")
    }
}

/// Reads the operation.
pub(crate) fn decode(encoded: &Encoded<'_>) -> Result<Op, GraphError> {
    Ok(Op::new(Bucketing {
        length: encoded.function(0, "length")?,
        buckets: encoded.params()?,
    }))
}

/// Returns the spec of `bucket_by_sequence_length` over elements of `input`.
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
    /// Batches of elements of similar length. `length` is handed an element and is a chain of maps that ends
    /// in an `i64`. A batch is yielded as soon as its bucket has as many elements as the bucket's batches; at
    /// the end, what is left in each bucket, the shortest first.
    ///
    /// Works as `tf.data.Dataset.bucket_by_sequence_length`. Boundaries that do not rise, and as many batch
    /// sizes as do not fit them, are refused.
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
