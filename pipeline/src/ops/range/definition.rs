//! The definition of `range`, which yields the integers of a range.
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

/// The parameters of `range`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The first value.
    #[n(0)]
    pub start: i64,
    /// The exclusive bound of the values.
    #[n(1)]
    pub stop: i64,
    /// The difference between one value and the next, which must not be 0.
    #[n(2)]
    pub step: i64,
}

impl Range {
    /// Returns the number of values.
    pub fn len(&self) -> u64 {
        let (low, high) = if self.step >= 0 {
            (self.start, self.stop)
        } else {
            (self.stop, self.start)
        };
        if self.step == 0 || low >= high {
            return 0;
        }
        high.abs_diff(low).div_ceil(self.step.unsigned_abs())
    }

    /// Returns whether the range has no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the value at `position`, which must be below [`Range::len`].
    pub fn value(&self, position: u64) -> i64 {
        // The result is within the range; wrapping arithmetic avoids an overflow in intermediate
        // results.
        self.start.wrapping_add(self.step.wrapping_mul(position as i64))
    }
}

impl Operation for Range {
    fn name(&self) -> &'static str {
        "range"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn arity(&self) -> RangeInclusive<usize> {
        0..=0
    }

    fn check(&self, _: usize) -> Result<(), String> {
        if self.step == 0 {
            return Err("step is 0".to_owned());
        }
        Ok(())
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        given.scalar(Dtype::I64)
    }

    fn cardinality(&self, _: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        Ok(Cardinality::Finite(self.len()))
    }

    fn splitting(&self, graph: &Graph, _: &dyn Registry) -> Result<Splitting, AnalysisError> {
        Ok(Splitting::Counted(graph.units(self.len())))
    }
}

impl Dataset {
    /// Yields the integers `start, start + step, …` as `i64` scalars. Stops before `stop`.
    ///
    /// Works like `tf.data.Dataset.range`. [`Dataset::graph`] refuses a step of 0.
    ///
    /// ```
    /// # use millstream_pipeline::exec::collect;
    /// # use millstream_pipeline::graph::Dataset;
    /// let dataset = Dataset::range(2, 10, 3);
    /// let numbers = collect(dataset, 100)?;
    /// assert!(numbers.iter().map(|value| value[0].as_i64()).eq([2, 5, 8].map(Some)));
    /// # Ok::<(), millstream_pipeline::exec::CollectError>(())
    /// ```
    pub fn range(start: i64, stop: i64, step: i64) -> Dataset {
        Dataset::source(Range { start, stop, step })
    }
}
