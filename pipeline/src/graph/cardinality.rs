//! How many elements every operation yields, as far as the graph alone tells.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;

use super::definition::Graph;
use super::error::AnalysisError;
use super::facts::Cardinality;
use super::operation::Given;
use super::registry::Registry;
use super::spec::node_specs;

/// The cardinality of `graph`, whose nodes yield `specs`.
///
/// # Errors
/// [`AnalysisError`] for a source nobody registered.
pub(crate) fn cardinality(
    graph: &Graph,
    specs: &[ElementSpec],
    registry: &dyn Registry,
) -> Result<Cardinality, AnalysisError> {
    let mut all: Vec<Cardinality> = Vec::with_capacity(graph.nodes().len());
    for node in graph.nodes() {
        let inputs = node.inputs.iter().map(|input| *input as usize);
        let given = Given {
            op: node.op.name(),
            registry,
            specs: inputs.clone().map(|input| &specs[input]).collect(),
            counts: inputs.map(|input| all[input]).collect(),
        };
        let count = node.op.cardinality(&given)?;
        drop(given);
        all.push(count);
    }
    Ok(all[graph.output()])
}

/// A cardinality as graphs declare it.
pub(crate) fn declared(count: Option<u64>, infinite: bool) -> Cardinality {
    match (infinite, count) {
        (true, _) => Cardinality::Infinite,
        (false, Some(count)) => Cardinality::Finite(count),
        (false, None) => Cardinality::Unknown,
    }
}

/// How many elements the body of a function makes of one element of `spec`.
pub(crate) fn of_body(
    body: &Graph,
    spec: &ElementSpec,
    registry: &dyn Registry,
) -> Result<Cardinality, AnalysisError> {
    let specs = node_specs(body, registry, Some(spec))?;
    cardinality(body, &specs, registry)
}

/// How many elements so many passes have; without end for `None`.
pub(crate) fn repeated(count: Option<u64>, input: Cardinality) -> Cardinality {
    match (count, input) {
        (Some(0), _) | (_, Cardinality::Finite(0)) => Cardinality::Finite(0),
        (None, _) => Cardinality::Infinite,
        (Some(count), input) => multiplied(input, Cardinality::Finite(count)),
    }
}

/// How many batches so many elements make.
pub(crate) fn batched(input: Cardinality, size: u64, drop_remainder: bool) -> Cardinality {
    match input {
        Cardinality::Finite(count) if drop_remainder => Cardinality::Finite(count / size),
        Cardinality::Finite(count) => Cardinality::Finite(count.div_ceil(size)),
        endless @ (Cardinality::Infinite | Cardinality::Unknown) => endless,
    }
}

/// Both together. What comes after an endless one is never reached.
pub(crate) fn added(one: Cardinality, other: Cardinality) -> Cardinality {
    use Cardinality::{Finite, Infinite, Unknown};
    match (one, other) {
        (Infinite, _) | (_, Infinite) => Infinite,
        (Finite(one), Finite(other)) => one.checked_add(other).map_or(Unknown, Finite),
        (Unknown, _) | (_, Unknown) => Unknown,
    }
}

/// What is left when any number of elements may be dropped or added.
pub(crate) fn thinned(input: Cardinality) -> Cardinality {
    match input {
        Cardinality::Finite(0) => Cardinality::Finite(0),
        Cardinality::Finite(_) | Cardinality::Infinite | Cardinality::Unknown => Cardinality::Unknown,
    }
}

pub(crate) fn multiplied(outer: Cardinality, inner: Cardinality) -> Cardinality {
    use Cardinality::{Finite, Infinite, Unknown};
    match (outer, inner) {
        (Finite(0), _) | (Finite(_), Finite(0)) => Finite(0),
        (Finite(outer), Finite(inner)) => outer.checked_mul(inner).map_or(Unknown, Finite),
        (Infinite, Finite(1..)) | (Finite(1..) | Infinite, Infinite) => Infinite,
        // Endlessly many empty datasets end no more than they yield.
        (Infinite, Finite(0)) | (Unknown, _) | (_, Unknown) => Unknown,
    }
}

/// Rows of every element, when the spec fixes them.
pub(crate) fn rows(spec: &ElementSpec) -> Option<u64> {
    spec.components().first()?.dims()?.first().copied().flatten()
}
