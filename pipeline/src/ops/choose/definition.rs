//! The definition of `choose`, which takes each element from the input that a dataset of indices names.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec};
use minicbor::{Decode, Encode};
use smallvec::{SmallVec, smallvec};

use crate::graph::cardinality::Cardinality;
use crate::graph::codec::{Encoded, encoded};
use crate::graph::counting::cardinality;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::limits::NODES_MAX;
use crate::graph::registry::Registry;
use crate::graph::spec::{alike, node_specs};
use crate::graph::tree::Graph;
use crate::graph::tree::Resolution;
use crate::graph::tree::Role;
use crate::graph::tree::{Given, Op, Operation};
use crate::ops::argument::Argument;
use std::ops::RangeInclusive;

/// The parameters of `choose`, apart from the dataset of indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Choose {
    /// Whether the dataset ends when a chosen input has ended. Otherwise `choose` skips that choice.
    #[n(0)]
    pub stop_on_empty: bool,
}

/// The operation `choose`.
#[derive(Debug, Clone, PartialEq)]
pub struct Choosing {
    /// The dataset of input indices.
    pub choices: Graph,
    /// The rule for the end of the dataset.
    pub params: Choose,
}

impl Operation for Choosing {
    fn name(&self) -> &'static str {
        "choose"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(&self.params)
    }

    fn arity(&self) -> RangeInclusive<usize> {
        1..=NODES_MAX
    }

    fn graphs(&self) -> SmallVec<[(&Graph, Role); 1]> {
        smallvec![(&self.choices, Role::Dataset)]
    }

    fn graphs_mut(&mut self) -> SmallVec<[&mut Graph; 1]> {
        smallvec![&mut self.choices]
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        match choice_spec(&self.choices, given.registry)? {
            None => alike(&given.specs).map_err(|reason| given.mismatch(reason)),
            Some(spec) => Err(given.mismatch(format!(
                "expected i64 scalars as choices, the indices of the inputs, found {spec}"
            ))),
        }
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        let specs = node_specs(&self.choices, given.registry, None)?;
        let choices = cardinality(&self.choices, &specs, given.registry)?;
        let all = |cardinality| given.counts.iter().all(|input| *input == cardinality);
        Ok(
            if all(Cardinality::Finite(0)) || choices == Cardinality::Finite(0) {
                Cardinality::Finite(0)
            } else if all(Cardinality::Infinite) {
                choices
            } else {
                Cardinality::Unknown
            },
        )
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("chooses an input by the number of elements that the task has yielded")
    }

    /// Returns false: the dataset of indices yields no elements itself.
    fn reads_files(&self) -> bool {
        false
    }

    fn resolve(&mut self, resolution: &Resolution<'_>) -> Result<(), AnalysisError> {
        resolution.resolve(&mut self.choices, None)
    }
}

/// Decodes a `choose` operation.
pub(crate) fn decode(encoded: &Encoded<'_>) -> Result<Op, GraphError> {
    Ok(Op::new(Choosing {
        choices: encoded.dataset(0, "choices")?,
        params: encoded.params()?,
    }))
}

/// Returns the spec of the choices if they are not `i64` scalars, and `None` if the choices are `i64`
/// scalars.
fn choice_spec(choices: &Graph, registry: &dyn Registry) -> Result<Option<ElementSpec>, AnalysisError> {
    let found = node_specs(choices, registry, None)?.pop();
    Ok(found.filter(|spec| match spec.components() {
        [only] => !only.accepts(Dtype::I64, &[]),
        _ => true,
    }))
}

impl Dataset {
    /// Takes each element from the dataset whose index `choices` yields. The dataset `choices` consists
    /// of `i64` scalars. Ends when `choices` ends, or when all datasets have ended.
    ///
    /// If a chosen dataset has ended, `stop_on_empty` decides: either the result ends, or the operation
    /// skips the choice. If the dataset is distributed in splits, the splits come from `datasets`, and
    /// every task reads all of `choices`.
    ///
    /// Works like `tf.data.Dataset.choose_from_datasets`. An index outside of `datasets` is an error.
    ///
    /// ```
    /// # use millstream_pipeline::exec::collect;
    /// # use millstream_pipeline::graph::Dataset;
    /// let dataset = Dataset::choose(
    ///     Dataset::range(0, 2, 1),
    ///     [Dataset::range(0, 5, 1), Dataset::range(10, 15, 1)],
    ///     true,
    /// );
    /// let numbers = collect(dataset, 100)?;
    /// assert!(numbers.iter().map(|value| value[0].as_i64()).eq([0, 10].map(Some)));
    /// # Ok::<(), millstream_pipeline::exec::CollectError>(())
    /// ```
    pub fn choose(
        choices: Dataset,
        datasets: impl IntoIterator<Item = Dataset>,
        stop_on_empty: bool,
    ) -> Dataset {
        match choices.error.map_or_else(|| Graph::new(choices.nodes), Err) {
            Ok(choices) => Dataset::joined(
                Choosing {
                    choices,
                    params: Choose { stop_on_empty },
                },
                datasets,
            ),
            // The `argument` operation is only a placeholder: `graph` reports the stored error.
            Err(error) => Dataset {
                error: Some(error),
                ..Dataset::joined(Argument, [])
            },
        }
    }
}
