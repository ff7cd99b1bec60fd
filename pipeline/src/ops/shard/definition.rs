//! The definition of `shard`, which keeps every n-th element.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::cardinality::Cardinality;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::tree::{Given, Operation};

/// The parameters of `shard`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// The number of shards, at least 1. `None` makes the operation a hint. A program that runs the
    /// dataset on several workers replaces the hint by the number of workers and the number of the
    /// worker.
    #[n(0)]
    pub count: Option<u64>,
    /// The number of the shard to keep, from 0.
    #[n(1)]
    pub index: u64,
    /// Whether to fail if this shard has elements but another shard has none.
    #[n(2)]
    pub require_non_empty: bool,
}

impl Operation for Shard {
    fn name(&self) -> &'static str {
        "shard"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn check(&self, _: usize) -> Result<(), String> {
        match self.count {
            Some(count) if self.index >= count => Err(format!(
                "has the shard index {} of {count} shards, expected an index below the number of shards",
                self.index
            )),
            Some(_) | None => Ok(()),
        }
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        Ok(match (given.count()?, self.count) {
            (Cardinality::Finite(0), _) => Cardinality::Finite(0),
            (Cardinality::Finite(input), Some(count)) => {
                Cardinality::Finite(input.saturating_sub(self.index).div_ceil(count))
            }
            (Cardinality::Finite(_), None) | (Cardinality::Unknown, _) => Cardinality::Unknown,
            (Cardinality::Infinite, _) => Cardinality::Infinite,
        })
    }

    fn spans_splits(&self) -> Option<&'static str> {
        Some("counts the elements of the whole dataset")
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("counts the elements of each task, not positions of the source")
    }

    fn yields_its_input(&self) -> bool {
        true
    }

    fn does_nothing(&self) -> bool {
        // A shard with `require_non_empty` still has to check its input.
        self.count == Some(1) && !self.require_non_empty
    }
}

impl Dataset {
    /// Keeps shard `index` of `count`: the elements whose number modulo `count` equals `index`. The
    /// numbers start at 0 in every pass.
    ///
    /// Works like `tf.data.Dataset.shard`. [`Dataset::graph`] refuses a count of 0, and an index that
    /// is not below the count.
    ///
    /// ```
    /// # use millstream_pipeline::exec::collect;
    /// # use millstream_pipeline::graph::Dataset;
    /// let dataset = Dataset::range(0, 7, 1).shard(3, 1);
    /// let numbers = collect(dataset, 100)?;
    /// assert!(numbers.iter().map(|value| value[0].as_i64()).eq([1, 4].map(Some)));
    /// # Ok::<(), millstream_pipeline::exec::CollectError>(())
    /// ```
    pub fn shard(self, count: u64, index: u64) -> Dataset {
        self.then(Shard {
            count: Some(count),
            index,
            require_non_empty: false,
        })
    }

    /// Marks the place for a [`Dataset::shard`] whose count and index are the number of workers and the
    /// worker's own number. The sharding policy `hint` sets these numbers. Running the dataset under
    /// another policy fails.
    pub fn shard_hint(self) -> Dataset {
        self.then(Shard {
            count: None,
            index: 0,
            require_non_empty: false,
        })
    }
}
