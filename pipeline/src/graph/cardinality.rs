//! How many elements every operation yields, as far as the graph alone tells.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;

use super::definition::Graph;
use super::error::AnalysisError;
use super::facts::Cardinality;
use super::function::Function;
use super::op::{FlatMap, OnError, Op};
use super::registry::Registry;
use super::spec::{node_specs, source_signature};

/// The cardinality of `graph`, whose nodes yield `specs`.
///
/// # Errors
/// [`AnalysisError`] for a source nobody registered.
pub(super) fn cardinality(
    graph: &Graph,
    specs: &[ElementSpec],
    registry: &dyn Registry,
) -> Result<Cardinality, AnalysisError> {
    let mut all: Vec<Cardinality> = Vec::with_capacity(graph.nodes().len());
    for node in graph.nodes() {
        let input = node.inputs.first().map(|input| *input as usize);
        let of = match input {
            None => source_cardinality(&node.op, registry)?,
            Some(input) => output_cardinality(&node.op, all[input], &specs[input], registry)?,
        };
        all.push(of);
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

fn source_cardinality(op: &Op, registry: &dyn Registry) -> Result<Cardinality, AnalysisError> {
    Ok(match op {
        Op::Range(range) => Cardinality::Finite(range.len()),
        Op::TensorSlices(slices) => slices
            .constant
            .slices()
            .map_or(Cardinality::Unknown, Cardinality::Finite),
        Op::Source(source) => source_signature(source, registry)?.cardinality,
        Op::Service(service) => declared(service.count, service.infinite),
        Op::Argument => Cardinality::Finite(1),
        Op::Files(_)
        | Op::Map(..)
        | Op::Filter(_)
        | Op::WebDataset(_)
        | Op::Batch(_)
        | Op::Unbatch
        | Op::Shuffle(_)
        | Op::Repeat(_)
        | Op::Take(_)
        | Op::Skip(_)
        | Op::Prefetch(_)
        | Op::FlatMap(_) => Cardinality::Unknown,
    })
}

fn output_cardinality(
    op: &Op,
    input: Cardinality,
    input_spec: &ElementSpec,
    registry: &dyn Registry,
) -> Result<Cardinality, AnalysisError> {
    use Cardinality::{Finite, Infinite, Unknown};
    Ok(match op {
        Op::Range(_) | Op::TensorSlices(_) | Op::Files(_) | Op::Source(_) | Op::Service(_) | Op::Argument => {
            source_cardinality(op, registry)?
        }
        Op::Map(Function::DecodeImage(decode), _) if decode.on_error == OnError::Skip => thinned(input),
        Op::Map(..) => input,
        Op::Shuffle(_) | Op::Prefetch(_) => input,
        Op::Filter(_) | Op::WebDataset(_) => thinned(input),
        Op::Batch(batch) => match input {
            Finite(count) if batch.drop_remainder => Finite(count / batch.size),
            Finite(count) => Finite(count.div_ceil(batch.size)),
            Infinite | Unknown => input,
        },
        Op::Unbatch => multiplied(input, rows(input_spec).map_or(Unknown, Finite)),
        Op::Repeat(repeat) => match (repeat.count, input) {
            (Some(0), _) | (_, Finite(0)) => Finite(0),
            (None, Finite(_) | Infinite | Unknown) => Infinite,
            (Some(count), input) => multiplied(input, Finite(count)),
        },
        Op::Take(take) => match input {
            _ if take.count == 0 => Finite(0),
            Finite(count) => Finite(count.min(take.count)),
            Infinite => Finite(take.count),
            Unknown => Unknown,
        },
        Op::Skip(skip) => match input {
            Finite(count) => Finite(count.saturating_sub(skip.count)),
            Infinite | Unknown => input,
        },
        Op::FlatMap(FlatMap::Registered(_)) => thinned(input),
        Op::FlatMap(FlatMap::Graph(body)) => {
            let specs = node_specs(body, registry, Some(input_spec))?;
            multiplied(input, cardinality(body, &specs, registry)?)
        }
    })
}

/// What is left when any number of elements may be dropped or added.
fn thinned(input: Cardinality) -> Cardinality {
    match input {
        Cardinality::Finite(0) => Cardinality::Finite(0),
        Cardinality::Finite(_) | Cardinality::Infinite | Cardinality::Unknown => Cardinality::Unknown,
    }
}

fn multiplied(outer: Cardinality, inner: Cardinality) -> Cardinality {
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
fn rows(spec: &ElementSpec) -> Option<u64> {
    spec.components().first()?.dims()?.first().copied().flatten()
}
