//! The definition of `unique`: each element once, however often it comes.
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

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("drops what a task has seen, which depends on the positions it was given")
    }
}

/// Reads the operation.
pub(crate) fn decode(_: &Encoded<'_>) -> Result<Op, GraphError> {
    Ok(Op::new(Unique))
}

impl Dataset {
    /// The first of equal elements, of any type. Every distinct one is held in memory, up to the pipeline's
    /// byte budget: beyond it is an error. Where splits are dealt out or the dataset is divided, each task
    /// drops what it has seen itself.
    ///
    /// Works as `tf.data.Dataset.unique`, which knows integers and strings only.
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
