//! The definition of `unique`, which drops repeated elements.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::thinned;
use crate::graph::codec::Encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::tree::{Given, Op, Operation};

/// The operation `unique`, which has no parameters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unique;

impl Operation for Unique {
    fn name(&self) -> &'static str {
        "unique"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        Ok(Vec::new())
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        given.count().map(thinned)
    }

    fn spans_splits(&self) -> Option<&'static str> {
        Some("compares each element with the whole dataset")
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("drops elements that the task has seen before, which depends on the splits of the task")
    }
}

/// Decodes a `unique` operation.
pub(crate) fn decode(_: &Encoded<'_>) -> Result<Op, GraphError> {
    Ok(Op::new(Unique))
}

impl Dataset {
    /// Yields the first of equal elements, of any type. Holds every distinct element in memory;
    /// exceeding the pipeline's byte budget is an error. If the dataset is distributed in splits or
    /// shards, each task drops only the elements that the task itself has seen before.
    ///
    /// Works like `tf.data.Dataset.unique`, which supports integers and strings only.
    ///
    /// ```
    /// # use millstream_pipeline::exec::collect;
    /// # use millstream_pipeline::graph::Dataset;
    /// let dataset = Dataset::range(0, 3, 1).repeat(Some(2)).unique();
    /// let numbers = collect(dataset, 100)?;
    /// assert!(numbers.iter().map(|value| value[0].as_i64()).eq([0, 1, 2].map(Some)));
    /// # Ok::<(), millstream_pipeline::exec::CollectError>(())
    /// ```
    pub fn unique(self) -> Dataset {
        self.then(Unique)
    }
}
