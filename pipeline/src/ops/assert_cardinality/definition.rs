//! The definition of `assert_cardinality`: fails unless there are so many elements.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::declared;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::tree::{Given, Operation};

/// Parameters of `assert_cardinality`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct AssertCardinality {
    /// The number of elements; absent = there is no end.
    #[n(0)]
    pub count: Option<u64>,
}

impl Operation for AssertCardinality {
    fn name(&self) -> &'static str {
        "assert_cardinality"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn cardinality(&self, _: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        Ok(declared(self.count, self.count.is_none()))
    }

    fn ignores_order(&self) -> bool {
        true
    }
}

impl Dataset {
    /// States that there are so many elements: an end before them, or an element behind them, is an error. Of
    /// one task's share of a dataset nothing can be said, so that splits and shards are not held against it.
    ///
    /// Works as `tf.data.experimental.assert_cardinality`.
    pub fn assert_cardinality(self, count: u64) -> Dataset {
        let count = Some(count);
        self.then(AssertCardinality { count })
    }

    /// States that there is no end: an end is an error.
    ///
    /// As `assert_cardinality(INFINITE_CARDINALITY)` of tf.data.
    pub fn assert_infinite(self) -> Dataset {
        self.then(AssertCardinality { count: None })
    }
}
