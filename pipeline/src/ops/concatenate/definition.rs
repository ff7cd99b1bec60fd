//! The definition of `concatenate`, which yields the elements of one input after the other.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;
use serde_json::{Map, Value};

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::added;
use crate::graph::codec::Encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::limits::NODES_MAX;
use crate::graph::named::{NoParameters, named_params};
use crate::graph::spec::alike;
use crate::graph::tree::{Given, Op, Operation};
use std::ops::RangeInclusive;

/// The operation `concatenate`, which has no parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Concatenate;

impl Operation for Concatenate {
    fn name(&self) -> &'static str {
        "concatenate"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        Ok(Vec::new())
    }

    fn arity(&self) -> RangeInclusive<usize> {
        1..=NODES_MAX
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        alike(&given.specs).map_err(|reason| given.mismatch(reason))
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        Ok(given.counts.iter().copied().fold(Cardinality::Finite(0), added))
    }
}

/// Decodes a `concatenate` operation.
pub(crate) fn decode(_: &Encoded<'_>) -> Result<Op, GraphError> {
    Ok(Op::new(Concatenate))
}

/// Adds the operation, which has no parameters, to its inputs.
pub(crate) fn named(
    _: &str,
    parameters: Map<String, Value>,
    inputs: Vec<Dataset>,
) -> Result<Dataset, String> {
    named_params::<NoParameters>(parameters)?;
    let mut inputs = inputs.into_iter();
    let first = inputs.next().ok_or("expected one input or more, found none")?;
    Ok(inputs.fold(first, Dataset::concatenate))
}

impl Dataset {
    /// Yields the elements of this dataset and then the elements of `other`. The datasets need the same
    /// structure and dtypes. If a dimension differs, that dimension is unknown in the result.
    ///
    /// Works like `tf.data.Dataset.concatenate`. The analysis of the dataset refuses inputs that do not
    /// match.
    ///
    /// ```
    /// # use millstream_pipeline::exec::collect;
    /// # use millstream_pipeline::graph::Dataset;
    /// let dataset = Dataset::range(0, 2, 1).concatenate(Dataset::range(7, 9, 1));
    /// let numbers = collect(dataset, 100)?;
    /// assert!(numbers.iter().map(|value| value[0].as_i64()).eq([0, 1, 7, 8].map(Some)));
    /// # Ok::<(), millstream_pipeline::exec::CollectError>(())
    /// ```
    pub fn concatenate(self, other: Dataset) -> Dataset {
        let is_joined = self.nodes.last().is_some_and(|node| node.op.is::<Concatenate>());
        if !is_joined {
            return Dataset::joined(Concatenate, [self, other]);
        }
        // Extends an existing `concatenate` with one more input, because graphs limit depth more than
        // inputs.
        let mut joined = self;
        let Some(mut node) = joined.nodes.pop() else {
            return joined;
        };
        node.inputs.push(joined.append(other));
        joined.nodes.push(node);
        joined
    }
}
