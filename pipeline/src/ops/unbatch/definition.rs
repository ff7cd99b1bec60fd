//! The definition of `unbatch`, which yields the rows of every element one by one.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::{multiplied, rows};
use crate::graph::codec::Encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::spec::row_of;
use crate::graph::tree::{Given, Op, Operation};

/// The operation `unbatch`, which has no parameters.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unbatch;

impl Operation for Unbatch {
    fn name(&self) -> &'static str {
        "unbatch"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        Ok(Vec::new())
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        row_of(given.input()?).map_err(|reason| given.mismatch(reason))
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        let rows = rows(given.input()?).map_or(Cardinality::Unknown, Cardinality::Finite);
        Ok(multiplied(given.count()?, rows))
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("makes several elements of one position")
    }
}

/// Decodes an `unbatch` operation.
pub(crate) fn decode(_: &Encoded<'_>) -> Result<Op, GraphError> {
    Ok(Op::new(Unbatch))
}

impl Dataset {
    /// Yields the rows of every element along its leading dimension: the inverse of [`Dataset::batch`].
    ///
    /// Works like `tf.data.Dataset.unbatch`. An element fails if its components have no leading
    /// dimension, or leading dimensions of different lengths.
    ///
    /// ```
    /// # use millstream_pipeline::exec::collect;
    /// # use millstream_pipeline::graph::Dataset;
    /// let dataset = Dataset::range(0, 4, 1).batch(3, false).unbatch();
    /// let numbers = collect(dataset, 100)?;
    /// assert!(numbers.iter().map(|value| value[0].as_i64()).eq([0, 1, 2, 3].map(Some)));
    /// # Ok::<(), millstream_pipeline::exec::CollectError>(())
    /// ```
    pub fn unbatch(self) -> Dataset {
        self.then(Unbatch)
    }
}
