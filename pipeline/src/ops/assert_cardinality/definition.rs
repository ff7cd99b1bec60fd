//! The definition of `assert_cardinality`, which fails unless its input has the stated number of
//! elements.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::declared;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::tree::{Given, Operation};

/// The parameters of `assert_cardinality`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct AssertCardinality {
    /// The expected number of elements. `None` states that the dataset never ends.
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

    fn deciding_params(&self) -> Result<Option<Vec<u8>>, GraphError> {
        Ok(None)
    }

    fn cardinality(&self, _: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        Ok(declared(self.count, self.count.is_none()))
    }

    fn states_cardinality(&self) -> bool {
        true
    }

    fn ignores_order(&self) -> bool {
        true
    }
}

impl Dataset {
    /// States that the dataset has exactly `count` elements: an earlier end or a further element is an
    /// error. Does not check a dataset whose splits or shards are read by several workers, because one
    /// worker sees only a part.
    ///
    /// Works like `tf.data.experimental.assert_cardinality`.
    pub fn assert_cardinality(self, count: u64) -> Dataset {
        let count = Some(count);
        self.then(AssertCardinality { count })
    }

    /// States that the dataset never ends: reaching an end is an error.
    ///
    /// Works like `assert_cardinality(INFINITE_CARDINALITY)` of tf.data.
    pub fn assert_infinite(self) -> Dataset {
        self.then(AssertCardinality { count: None })
    }
}
