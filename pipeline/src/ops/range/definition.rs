//! The definition of `range`: the integers of a range.
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

/// Parameters of `range`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The first value.
    #[n(0)]
    pub start: i64,
    /// The bound that is not reached.
    #[n(1)]
    pub stop: i64,
    /// The difference of neighbours; never 0.
    #[n(2)]
    pub step: i64,
}

impl Range {
    /// Returns how many values there are.
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

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value at `position`, which is below [`Range::len`].
    pub fn value(&self, position: u64) -> i64 {
        // In range by construction; wrapping arithmetic computes it without an overflow in between.
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
    /// The integers `start, start + step, …` up to but without `stop`, as `i64` scalars.
    ///
    /// Works as `tf.data.Dataset.range`. A step of 0 is refused.
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
