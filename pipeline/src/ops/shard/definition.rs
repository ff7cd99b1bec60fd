//! The definition of `shard`: every n-th element.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::cardinality::Cardinality;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::tree::{Given, Operation};

/// Parameters of `shard`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// The number of shards, at least 1; absent = a hint, into which a program that runs the dataset on
    /// several workers puts their number and the worker's.
    #[n(0)]
    pub count: Option<u64>,
    /// The number of the shard that is kept, from 0.
    #[n(1)]
    pub index: u64,
    /// Whether a shard that has elements demands that every other one has some, and fails otherwise.
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
                "takes shard {} of {count}: shards are numbered from 0",
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

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("counts elements of each task, not positions of the source")
    }

    fn yields_its_input(&self) -> bool {
        true
    }

    fn does_nothing(&self) -> bool {
        // One that demands an element checks that there is one.
        self.count == Some(1) && !self.require_non_empty
    }
}

impl Dataset {
    /// Shard `index` of `count`: the elements whose number, from 0 on in every pass, leaves the rest `index`
    /// when divided by `count`.
    ///
    /// Works as `tf.data.Dataset.shard`. A count of 0, and an index that is not below it, are refused.
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

    /// A place for a [`Dataset::shard`] whose numbers are those of the workers: the sharding policy `hint`
    /// puts them here. Run in any other way, the dataset is refused.
    pub fn shard_hint(self) -> Dataset {
        self.then(Shard {
            count: None,
            index: 0,
            require_non_empty: false,
        })
    }
}
