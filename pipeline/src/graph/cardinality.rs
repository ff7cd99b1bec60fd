//! How many elements every operation yields, as far as the graph alone tells.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;
use smallvec::SmallVec;

use super::definition::Graph;
use super::error::AnalysisError;
use super::facts::Cardinality;
use super::function::Function;
use super::op::{FlatMap, Op};
use super::registry::Registry;
use super::spec::{no_input, node_specs, source_signature};

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
        let inputs = node.inputs.iter().map(|input| *input as usize);
        let given: SmallVec<[_; 1]> = inputs.map(|input| (all[input], &specs[input])).collect();
        all.push(node_cardinality(&node.op, &given, registry)?);
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
pub(super) fn of_body(
    body: &Graph,
    spec: &ElementSpec,
    registry: &dyn Registry,
) -> Result<Cardinality, AnalysisError> {
    let specs = node_specs(body, registry, Some(spec))?;
    cardinality(body, &specs, registry)
}

/// How many elements `op` yields, given how many come in from each input and what they are.
fn node_cardinality(
    op: &Op,
    inputs: &[(Cardinality, &ElementSpec)],
    registry: &dyn Registry,
) -> Result<Cardinality, AnalysisError> {
    use Cardinality::{Finite, Infinite, Unknown};
    let given = || inputs.first().copied().ok_or_else(|| no_input(op));
    let input = || given().map(|(input, _)| input);
    Ok(match op {
        Op::Range(range) => Finite(range.len()),
        Op::Counter(_) | Op::Random(_) => Infinite,
        Op::Tensors(_) => Finite(1),
        Op::TensorSlices(slices) => slices.constant.slices().map_or(Unknown, Finite),
        Op::Files(_) => Unknown,
        Op::Source(source) => source_signature(source, registry)?.cardinality,
        Op::Service(service) => declared(service.count, service.infinite),
        Op::Argument => Finite(1),
        Op::Map(Function::Image(image), _) if image.may_skip() => thinned(input()?),
        Op::Options(options) if options.on_error.is_some_and(|policy| policy.skips) => thinned(input()?),
        Op::Map(..) | Op::Shuffle(_) | Op::Enumerate(_) | Op::Prefetch(_) | Op::Options(_) => input()?,
        Op::Filter(_)
        | Op::TakeWhile(_)
        | Op::GroupByWindow(_)
        | Op::Window(..)
        | Op::Bucket(..)
        | Op::Read(_)
        | Op::FlatMap(FlatMap::Registered(_))
        | Op::Interleave(FlatMap::Registered(_), _) => thinned(input()?),
        Op::Batch(batch) | Op::RaggedBatch(batch) => batched(input()?, batch.size, batch.drop_remainder),
        Op::PaddedBatch(batch) => batched(input()?, batch.size, batch.drop_remainder),
        Op::Unbatch => {
            let (input, spec) = given()?;
            multiplied(input, rows(spec).map_or(Unknown, Finite))
        }
        Op::Kept(kept) => kept.cardinality(input()?),
        Op::Step(step) => given().map(|(input, spec)| step.cardinality(input, spec))?,
        Op::Fold(fold) => {
            let (input, spec) = given()?;
            fold.cardinality(registry, input, spec)?
        }
        Op::Repeat(repeat) => repeated(repeat.count, input()?),
        Op::Take(take) => match input()? {
            _ if take.count == 0 => Finite(0),
            Finite(count) => Finite(count.min(take.count)),
            Infinite => Finite(take.count),
            Unknown => Unknown,
        },
        Op::Skip(skip) => skipped(skip.count, input()?),
        Op::Shard(shard) => match (input()?, shard.count) {
            (Finite(0), _) => Finite(0),
            (Finite(input), Some(count)) => Finite(input.saturating_sub(shard.index).div_ceil(count)),
            (Finite(_), None) | (Unknown, _) => Unknown,
            (Infinite, _) => Infinite,
        },
        Op::FlatMap(FlatMap::Graph(body)) | Op::Interleave(FlatMap::Graph(body), _) => {
            let (input, spec) = given()?;
            multiplied(input, of_body(body, spec, registry)?)
        }
        Op::Concatenate => inputs.iter().map(|(input, _)| *input).fold(Finite(0), added),
        Op::Sample(sample) => sampled(sample.stop_on_empty, inputs),
        Op::Choose(choices, _) => {
            let specs = node_specs(choices, registry, None)?;
            chosen(cardinality(choices, &specs, registry)?, inputs)
        }
        Op::Zip(_) => inputs.iter().map(|(input, _)| *input).fold(Infinite, shorter),
    })
}

/// How many elements so many passes have; without end for `None`.
pub(super) fn repeated(count: Option<u64>, input: Cardinality) -> Cardinality {
    match (count, input) {
        (Some(0), _) | (_, Cardinality::Finite(0)) => Cardinality::Finite(0),
        (None, _) => Cardinality::Infinite,
        (Some(count), input) => multiplied(input, Cardinality::Finite(count)),
    }
}

/// What is left behind so many elements.
fn skipped(count: u64, input: Cardinality) -> Cardinality {
    match input {
        Cardinality::Finite(all) => Cardinality::Finite(all.saturating_sub(count)),
        endless @ (Cardinality::Infinite | Cardinality::Unknown) => endless,
    }
}

/// How many batches so many elements make.
fn batched(input: Cardinality, size: u64, drop_remainder: bool) -> Cardinality {
    match input {
        Cardinality::Finite(count) if drop_remainder => Cardinality::Finite(count / size),
        Cardinality::Finite(count) => Cardinality::Finite(count.div_ceil(size)),
        endless @ (Cardinality::Infinite | Cardinality::Unknown) => endless,
    }
}

/// How many elements are drawn from `inputs`.
fn sampled(stop_on_empty: bool, inputs: &[(Cardinality, &ElementSpec)]) -> Cardinality {
    let mut all = inputs.iter().map(|(input, _)| *input);
    if !stop_on_empty || inputs.len() == 1 {
        all.fold(Cardinality::Finite(0), added)
    } else if all.all(|input| input == Cardinality::Infinite) {
        Cardinality::Infinite
    } else {
        // Which of them is the first to be drawn after its end is not known.
        Cardinality::Unknown
    }
}

/// How many elements so many choices among `inputs` make.
fn chosen(choices: Cardinality, inputs: &[(Cardinality, &ElementSpec)]) -> Cardinality {
    let all = |cardinality| inputs.iter().all(|(input, _)| *input == cardinality);
    if all(Cardinality::Finite(0)) || choices == Cardinality::Finite(0) {
        Cardinality::Finite(0)
    } else if all(Cardinality::Infinite) {
        choices
    } else {
        Cardinality::Unknown
    }
}

/// Both together. What comes after an endless one is never reached.
fn added(one: Cardinality, other: Cardinality) -> Cardinality {
    use Cardinality::{Finite, Infinite, Unknown};
    match (one, other) {
        (Infinite, _) | (_, Infinite) => Infinite,
        (Finite(one), Finite(other)) => one.checked_add(other).map_or(Unknown, Finite),
        (Unknown, _) | (_, Unknown) => Unknown,
    }
}

/// The smaller of two; nothing is smaller than none, whatever the other one is.
fn shorter(one: Cardinality, other: Cardinality) -> Cardinality {
    use Cardinality::{Finite, Infinite, Unknown};
    match (one, other) {
        (Finite(0), _) | (_, Finite(0)) => Finite(0),
        (Finite(one), Finite(other)) => Finite(one.min(other)),
        (Infinite, bound) | (bound, Infinite) => bound,
        (Unknown, _) | (_, Unknown) => Unknown,
    }
}

/// What is left when any number of elements may be dropped or added.
pub(super) fn thinned(input: Cardinality) -> Cardinality {
    match input {
        Cardinality::Finite(0) => Cardinality::Finite(0),
        Cardinality::Finite(_) | Cardinality::Infinite | Cardinality::Unknown => Cardinality::Unknown,
    }
}

pub(super) fn multiplied(outer: Cardinality, inner: Cardinality) -> Cardinality {
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
pub(super) fn rows(spec: &ElementSpec) -> Option<u64> {
    spec.components().first()?.dims()?.first().copied().flatten()
}
