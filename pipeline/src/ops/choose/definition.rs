//! The definition of `choose`: each element from the input that a dataset of numbers says.
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

/// Parameters of `choose` beside its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Choose {
    /// Whether it ends when an input that has ended is chosen, or passes over that choice.
    #[n(0)]
    pub stop_on_empty: bool,
}

/// The operation `choose`.
#[derive(Debug, Clone, PartialEq)]
pub struct Choosing {
    /// The dataset of the numbers of inputs.
    pub choices: Graph,
    /// When it ends.
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
                "its choices are to be i64 scalars, the indices of its inputs, and are {spec}"
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
        Some("picks by how many elements a task has had")
    }

    /// Returns false: the input that chooses yields no elements.
    fn reads_files(&self) -> bool {
        false
    }

    fn resolve(&mut self, resolution: &Resolution<'_>) -> Result<(), AnalysisError> {
        resolution.resolve(&mut self.choices, None)
    }
}

/// Reads the operation.
pub(crate) fn decode(encoded: &Encoded<'_>) -> Result<Op, GraphError> {
    Ok(Op::new(Choosing {
        choices: encoded.dataset(0, "choices")?,
        params: encoded.params()?,
    }))
}

/// Returns the spec of the choices of `choose`, unless they are `i64` scalars.
fn choice_spec(choices: &Graph, registry: &dyn Registry) -> Result<Option<ElementSpec>, AnalysisError> {
    let found = node_specs(choices, registry, None)?.pop();
    Ok(found.filter(|spec| match spec.components() {
        [only] => !only.accepts(Dtype::I64, &[]),
        _ => true,
    }))
}

impl Dataset {
    /// Elements of these datasets in the order that `choices` says, a dataset of `i64` scalars: each the
    /// index of the dataset that yields the next element. It ends with `choices`, or when all datasets have
    /// ended.
    ///
    /// Once a dataset that has ended is chosen, the whole ends if `stop_on_empty`; else that choice is passed
    /// over. Where splits are dealt out, those are of `datasets`: every task reads all of `choices`.
    ///
    /// Works as `tf.data.Dataset.choose_from_datasets`. An index that no dataset has is an error.
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
            // Stands for what cannot be made; the mistake is what `graph` reports.
            Err(error) => Dataset {
                error: Some(error),
                ..Dataset::joined(Argument, [])
            },
        }
    }
}
