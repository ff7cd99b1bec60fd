//! The definition of `counter`, which counts up or down without end.
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

/// The parameters of `counter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Counter {
    /// The first value.
    #[n(0)]
    pub start: i64,
    /// The difference between one value and the next. After the largest `i64` the values wrap around to
    /// the smallest.
    #[n(1)]
    pub step: i64,
}

impl Counter {
    /// Returns the value at `position`.
    pub fn value(&self, position: u64) -> i64 {
        self.start.wrapping_add(self.step.wrapping_mul(position as i64))
    }
}

impl Operation for Counter {
    fn name(&self) -> &'static str {
        "counter"
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
}

impl Dataset {
    /// Yields the integers `start, start + step, …` without end, as `i64` scalars. If the dataset is
    /// distributed in splits, each integer goes to exactly one worker.
    ///
    /// Works like `tf.data.Dataset.counter`. After the largest `i64` the values wrap around to the
    /// smallest.
    ///
    /// ```
    /// # use millstream_pipeline::exec::collect;
    /// # use millstream_pipeline::graph::Dataset;
    /// let dataset = Dataset::counter(5, 2).take(3);
    /// let numbers = collect(dataset, 100)?;
    /// assert!(numbers.iter().map(|value| value[0].as_i64()).eq([5, 7, 9].map(Some)));
    /// # Ok::<(), millstream_pipeline::exec::CollectError>(())
    /// ```
    pub fn counter(start: i64, step: i64) -> Dataset {
        Dataset::source(Counter { start, step })
    }
}
