//! The definition of `random`, which yields random integers without end.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec};
use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::cardinality::Cardinality;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::registry::Registry;
use crate::graph::tree::Graph;
use crate::graph::tree::{Given, Operation};
use crate::graph::units::Splitting;
use std::ops::RangeInclusive;

/// The parameters of `random`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Random {
    /// The seed. Without a seed, every task draws its own numbers.
    #[n(0)]
    pub seed: Option<u64>,
    /// Whether every pass and epoch draws the same numbers.
    #[n(1)]
    #[cbor(default)]
    #[serde(default)]
    pub fixed: bool,
}

impl Operation for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn arity(&self) -> RangeInclusive<usize> {
        0..=0
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        given.scalar(Dtype::I64)
    }

    fn cardinality(&self, _: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        Ok(Cardinality::Infinite)
    }

    /// Distributes the positions in ranges, because each value follows from its position alone.
    fn splitting(&self, graph: &Graph, _: &dyn Registry) -> Result<Splitting, AnalysisError> {
        Ok(Splitting::Counted(graph.units(u64::MAX)))
    }

    fn draw_alike(&mut self, seed: u64) {
        self.seed.get_or_insert(seed);
    }

    fn fix_draws(&mut self) -> bool {
        self.fixed = true;
        true
    }
}

impl Dataset {
    /// Yields random integers without end, uniform over `0..2^32`, as `i64` scalars. Every pass draws
    /// other numbers. With a seed, all workers draw the same numbers; without a seed, each worker draws
    /// its own. If the dataset is distributed in splits, one worker draws each position.
    ///
    /// Works like `tf.data.Dataset.random`, with the same bounds but other numbers.
    pub fn random(seed: Option<u64>) -> Dataset {
        Dataset::source(Random { seed, fixed: false })
    }
}
