//! Inference of element specs: what every operation yields, given what its input yields.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec, Structure, TensorSpec};
use smallvec::SmallVec;

use super::definition::{Graph, Node};
use super::error::AnalysisError;
use super::expr::column_of;
use super::function::Function;
use super::group_spec::{bucket_spec, grouped_spec, padded_spec, ragged_spec, reduced_spec, wants_number};
use super::op::{FlatMap, Op, Zip};
use super::registry::{Registry, SourceSignature};

/// The spec of every node's elements, in node order. `argument` is the spec of a function's argument.
///
/// # Errors
/// [`AnalysisError`] naming the first operation that does not fit its input.
pub fn node_specs(
    graph: &Graph,
    registry: &dyn Registry,
    argument: Option<&ElementSpec>,
) -> Result<Vec<ElementSpec>, AnalysisError> {
    let mut specs: Vec<ElementSpec> = Vec::with_capacity(graph.nodes().len());
    for node in graph.nodes() {
        let spec = node_spec(&node.op, registry, &given(node, &specs, argument))?;
        specs.push(spec);
    }
    Ok(specs)
}

/// What `node` is given, of a graph whose nodes up to it yield `specs`.
fn given<'s>(
    node: &Node,
    specs: &'s [ElementSpec],
    argument: Option<&'s ElementSpec>,
) -> SmallVec<[&'s ElementSpec; 1]> {
    if node.inputs.is_empty() {
        argument.into_iter().collect()
    } else {
        node.inputs.iter().map(|input| &specs[*input as usize]).collect()
    }
}

/// The position of a named component; the empty name is the only component of a single-component element.
pub(crate) fn component(op: &str, spec: &ElementSpec, name: &str) -> Result<usize, AnalysisError> {
    column_of(name, spec).map_err(|reason| AnalysisError::Mismatch {
        op: op.to_owned(),
        reason,
    })
}

/// `spec` with every component's leading dimension removed.
pub(crate) fn without_leading(spec: &ElementSpec) -> Result<ElementSpec, String> {
    let mut components = Vec::with_capacity(spec.components().len());
    for component in spec.components() {
        components.push(match component.dims() {
            None => TensorSpec::unknown_rank(component.dtype()),
            Some(dims) => match dims.split_first() {
                Some((_, rest)) => TensorSpec::with_dims(component.dtype(), rest),
                None => return Err(format!("a component is a scalar, which has no rows: {spec}")),
            },
        });
    }
    ElementSpec::new(spec.structure().clone(), components).map_err(|error| error.to_string())
}

/// The signature of a registered source: as the graph declares it, else as the registry knows it.
pub(crate) fn source_signature(
    source: &super::op::RegisteredSource,
    registry: &dyn Registry,
) -> Result<SourceSignature, AnalysisError> {
    match &source.declared {
        None => registry.source(&source.name, &source.params),
        Some(declared) => Ok(SourceSignature {
            spec: declared.spec.0.clone(),
            cardinality: super::cardinality::declared(declared.count, declared.infinite),
            indexable: declared.indexable,
        }),
    }
}

fn scalar(op: &Op, dtype: Dtype) -> Result<ElementSpec, AnalysisError> {
    ElementSpec::single(TensorSpec::scalar(dtype)).map_err(|error| AnalysisError::Spec {
        op: op.name().to_owned(),
        reason: error.to_string(),
    })
}

/// What a graph's own check rules out: an operation without what it works on.
pub(super) fn no_input(op: &Op) -> AnalysisError {
    AnalysisError::Mismatch {
        op: op.name().to_owned(),
        reason: "it is given nothing to work on".to_owned(),
    }
}

/// What `op` yields. `given` is what it is given: the elements of each input, or a function's argument.
fn node_spec(op: &Op, registry: &dyn Registry, given: &[&ElementSpec]) -> Result<ElementSpec, AnalysisError> {
    let input = || given.first().copied().ok_or_else(|| no_input(op));
    let mismatch = |reason: String| AnalysisError::Mismatch {
        op: op.name().to_owned(),
        reason,
    };
    let not_allowed = |reason: String| AnalysisError::Spec {
        op: op.name().to_owned(),
        reason,
    };
    match op {
        Op::Range(_)
        | Op::Counter(_)
        | Op::Random(_)
        | Op::Tensors(_)
        | Op::TensorSlices(_)
        | Op::Files(_)
        | Op::Source(_)
        | Op::Service(_) => source_spec(op, registry),
        Op::Argument => input().cloned(),
        Op::Map(function, _) => function_spec(function, registry, input()?),
        Op::Filter(predicate) | Op::TakeWhile(predicate) => {
            predicate.fits(registry, input()?)?;
            input().cloned()
        }
        Op::Read(format) => format.spec(registry, input()?),
        Op::Batch(batch) => input()?
            .batched(batch.drop_remainder.then_some(batch.size))
            .map_err(|error| not_allowed(error.to_string())),
        Op::PaddedBatch(batch) => padded_spec(batch, input()?).map_err(mismatch),
        Op::RaggedBatch(batch) => ragged_spec(*batch, input()?).map_err(mismatch),
        Op::GroupByWindow(grouping) => grouped_spec(grouping, registry, input()?, &scalar(op, Dtype::I64)?),
        Op::Window(reduce, _) => reduced_spec(op.name(), reduce, registry, input()?),
        Op::Bucket(length, buckets) => {
            wants_number("the length", length, registry, input()?)?;
            bucket_spec(buckets, input()?).map_err(mismatch)
        }
        Op::Unbatch => without_leading(input()?).map_err(mismatch),
        Op::Kept(kept) => kept.spec(registry, input()?),
        Op::Fold(fold) => fold.spec(registry, input()?),
        Op::Step(step) => step.spec(input()?).map_err(mismatch),
        Op::Shuffle(_)
        | Op::Repeat(_)
        | Op::Take(_)
        | Op::Skip(_)
        | Op::Shard(_)
        | Op::Prefetch(_)
        | Op::Options(_) => input().cloned(),
        Op::Enumerate(_) => {
            let number = scalar(op, Dtype::I64)?;
            zipped(&Zip { names: None }, &[&number, input()?]).map_err(not_allowed)
        }
        Op::FlatMap(function) | Op::Interleave(function, _) => {
            expanded_spec(op, function, registry, input()?)
        }
        Op::Zip(zip) => zipped(zip, given).map_err(not_allowed),
        Op::Concatenate | Op::Sample(_) => alike(given).map_err(mismatch),
        Op::Choose(choices, _) => choice_spec(choices, registry).and_then(|found| match found {
            None => alike(given).map_err(mismatch),
            Some(spec) => Err(mismatch(format!(
                "its choices are to be i64 scalars, the indices of its inputs, and are {spec}"
            ))),
        }),
    }
}

/// What a source yields.
fn source_spec(op: &Op, registry: &dyn Registry) -> Result<ElementSpec, AnalysisError> {
    let embedded = |spec: Result<ElementSpec, String>| {
        spec.map_err(|reason| AnalysisError::Mismatch {
            op: op.name().to_owned(),
            reason,
        })
    };
    if let Op::Tensors(tensors) = op {
        embedded(tensors.constant.check().map(|()| tensors.constant.spec.0.clone()))
    } else if let Op::TensorSlices(slices) = op {
        embedded(slices.constant.slice_spec())
    } else if let Op::Files(_) = op {
        scalar(op, Dtype::String)
    } else if let Op::Source(source) = op {
        Ok(source_signature(source, registry)?.spec)
    } else if let Op::Service(service) = op {
        Ok(service.spec.0.clone())
    } else {
        scalar(op, Dtype::I64)
    }
}

/// What the datasets yield that `function` makes of elements of `input`.
fn expanded_spec(
    op: &Op,
    function: &FlatMap,
    registry: &dyn Registry,
    input: &ElementSpec,
) -> Result<ElementSpec, AnalysisError> {
    match function {
        FlatMap::Graph(body) => {
            let output = node_specs(body, registry, Some(input))?.pop();
            output.ok_or_else(|| no_input(op))
        }
        FlatMap::Registered(registered) => match &registered.output {
            Some(output) => Ok(output.0.clone()),
            None => registry.flat_map(&registered.name, &registered.params, input),
        },
    }
}

/// The elements of every input side by side.
fn zipped(zip: &Zip, given: &[&ElementSpec]) -> Result<ElementSpec, String> {
    let structures = given.iter().map(|spec| spec.structure().clone());
    let structure = match &zip.names {
        Some(names) => Structure::Dict(names.iter().cloned().zip(structures).collect()),
        None => Structure::Tuple(structures.collect()),
    };
    let components = given.iter().flat_map(|spec| spec.components()).cloned();
    ElementSpec::new(structure, components.collect()).map_err(|error| error.to_string())
}

/// What the choices of `choose` are, if they are no `i64` scalars.
fn choice_spec(choices: &Graph, registry: &dyn Registry) -> Result<Option<ElementSpec>, AnalysisError> {
    let found = node_specs(choices, registry, None)?.pop();
    Ok(found.filter(|spec| match spec.components() {
        [only] => !only.accepts(Dtype::I64, &[]),
        _ => true,
    }))
}

/// What describes the elements of all inputs, which have one structure: dimensions that differ are unknown.
fn alike(given: &[&ElementSpec]) -> Result<ElementSpec, String> {
    let Some((first, others)) = given.split_first() else {
        return Err("it has no inputs".to_owned());
    };
    let mut components = first.components().to_vec();
    for (index, other) in others.iter().enumerate() {
        let differs = || {
            format!(
                "its inputs yield different structures or dtypes: {first} (input 0) and {other} (input {}); map them to one",
                index + 1
            )
        };
        if other.structure() != first.structure() {
            return Err(differs());
        }
        for (component, other) in components.iter_mut().zip(other.components()) {
            if component.dtype() != other.dtype() {
                return Err(differs());
            }
            *component = widened(component, other);
        }
    }
    ElementSpec::new(first.structure().clone(), components).map_err(|error| error.to_string())
}

/// The narrowest spec that describes both tensors, whose dtypes are the same.
pub(super) fn widened(one: &TensorSpec, other: &TensorSpec) -> TensorSpec {
    match (one.dims(), other.dims()) {
        (Some(dims), Some(others)) if dims.len() == others.len() => {
            let same = |(dim, other): (&Option<u64>, &Option<u64>)| dim.filter(|_| dim == other);
            let dims: Vec<Option<u64>> = dims.iter().zip(others).map(same).collect();
            TensorSpec::with_dims(one.dtype(), &dims)
        }
        (Some(_) | None, _) => TensorSpec::unknown_rank(one.dtype()),
    }
}

fn function_spec(
    function: &Function,
    registry: &dyn Registry,
    input: &ElementSpec,
) -> Result<ElementSpec, AnalysisError> {
    match function {
        Function::Registered(registered) => match &registered.output {
            Some(output) => Ok(output.0.clone()),
            None => registry.map(&registered.name, &registered.params, input),
        },
        Function::Image(image) => image.spec(input),
        Function::Native(native) => native.output(input),
    }
}

/// `input` with the component `name` replaced by what `yields` makes of it, which is `None` unless it is what is `wanted`.
pub(super) fn replaced(
    op: &str,
    input: &ElementSpec,
    name: &str,
    wanted: &str,
    yields: impl FnOnce(&TensorSpec) -> Option<TensorSpec>,
) -> Result<ElementSpec, AnalysisError> {
    let position = component(op, input, name)?;
    let mut components = input.components().to_vec();
    components[position] = yields(&components[position]).ok_or_else(|| AnalysisError::Mismatch {
        op: op.to_owned(),
        reason: format!("component {name:?} should be {wanted}: {input}"),
    })?;
    ElementSpec::new(input.structure().clone(), components).map_err(|error| AnalysisError::Spec {
        op: op.to_owned(),
        reason: error.to_string(),
    })
}
