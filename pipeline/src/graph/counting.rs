//! The number of elements that each operation of a graph yields, as far as the graph determines it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;

use super::cardinality::Cardinality;
use super::error::AnalysisError;
use super::registry::Registry;
use super::spec::node_specs;
use super::tree::{Given, Graph};

/// The part of a dataset whose elements are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    /// The whole dataset.
    Whole,
    /// The dataset on one split alone.
    Split {
        /// The index of the node of the split's source.
        source: usize,
        /// The number of positions of the split, each of which is one element of the source.
        positions: u64,
    },
}

/// Returns the cardinality of `graph`, whose nodes yield elements of `specs`.
///
/// # Errors
/// [`AnalysisError`] for a source that is not registered.
pub(crate) fn cardinality(
    graph: &Graph,
    specs: &[ElementSpec],
    registry: &dyn Registry,
) -> Result<Cardinality, AnalysisError> {
    let all = cardinalities(graph, specs, registry, Counted::Whole)?;
    Ok(all[graph.output()])
}

/// Returns the number of elements of each node of `graph`, whose nodes yield elements of `specs`.
///
/// # Errors
/// [`AnalysisError`] for a source that is not registered.
pub(crate) fn cardinalities(
    graph: &Graph,
    specs: &[ElementSpec],
    registry: &dyn Registry,
    counted: Counted,
) -> Result<Vec<Cardinality>, AnalysisError> {
    let mut all: Vec<Cardinality> = Vec::with_capacity(graph.nodes().len());
    for (index, node) in graph.nodes().iter().enumerate() {
        let inputs = node.inputs.iter().map(|input| *input as usize);
        let given = Given {
            op: node.op.name(),
            registry,
            specs: inputs.clone().map(|input| &specs[input]).collect(),
            counts: inputs.map(|input| all[input]).collect(),
        };
        let count = match counted {
            Counted::Split { source, positions } if source == index => Cardinality::Finite(positions),
            // The stated number is that of the whole dataset.
            Counted::Split { .. } if node.op.states_cardinality() => given.count()?,
            Counted::Split { .. } | Counted::Whole => node.op.cardinality(&given)?,
        };
        drop(given);
        all.push(count);
    }
    Ok(all)
}

/// Returns the number of elements that the body of a function makes from one element of `spec`.
pub(crate) fn of_body(
    body: &Graph,
    spec: &ElementSpec,
    registry: &dyn Registry,
) -> Result<Cardinality, AnalysisError> {
    let specs = node_specs(body, registry, Some(spec))?;
    cardinality(body, &specs, registry)
}
