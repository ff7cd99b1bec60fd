//! Inference of element specs: the spec of each operation's output, from the specs of its inputs.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{ElementSpec, Structure, TensorSpec};
use smallvec::SmallVec;

use super::error::AnalysisError;
use super::expr::column_of;
use super::registry::Registry;
use super::tree::Given;
use super::tree::{Graph, Node};

/// Returns the spec of every node's elements, in node order. `argument` is the spec of a function's argument.
///
/// # Errors
/// [`AnalysisError`] that names the first operation that does not fit its input.
pub fn node_specs(
    graph: &Graph,
    registry: &dyn Registry,
    argument: Option<&ElementSpec>,
) -> Result<Vec<ElementSpec>, AnalysisError> {
    let mut specs: Vec<ElementSpec> = Vec::with_capacity(graph.nodes().len());
    for node in graph.nodes() {
        let given = Given {
            op: node.op.name(),
            registry,
            specs: given(node, &specs, argument),
            counts: SmallVec::new(),
        };
        let spec = node.op.spec(&given)?;
        drop(given);
        specs.push(spec);
    }
    Ok(specs)
}

/// Returns the specs of the inputs of `node`. `specs` has the output specs of the nodes before `node`. A node
/// without inputs receives the argument.
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

/// Returns the position of the component `name`. The empty name is the only component of a single-component
/// element.
pub(crate) fn component(op: &str, spec: &ElementSpec, name: &str) -> Result<usize, AnalysisError> {
    column_of(name, spec).map_err(|reason| AnalysisError::Mismatch {
        op: op.to_owned(),
        reason,
    })
}

/// Returns `spec` with the leading dimension of every component removed.
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

/// Returns the spec of a row of elements of `spec`, whose components must have equally many rows.
pub(crate) fn row_of(spec: &ElementSpec) -> Result<ElementSpec, String> {
    let mut rows = spec
        .components()
        .iter()
        .filter_map(|component| component.dims()?.first().copied().flatten());
    if let Some(first) = rows.next()
        && let Some(other) = rows.find(|rows| *rows != first)
    {
        return Err(format!(
            "expected components of one number of rows, found components of {first} and of {other} rows: {spec}"
        ));
    }
    without_leading(spec)
}

/// Returns one spec for the elements of all inputs, which must share structure and dtypes. Dimensions that
/// differ between inputs become unknown.
pub(crate) fn alike(given: &[&ElementSpec]) -> Result<ElementSpec, String> {
    let Some((first, others)) = given.split_first() else {
        return Err("it has no inputs".to_owned());
    };
    let mut components = first.components().to_vec();
    for (index, other) in others.iter().enumerate() {
        let differs = || {
            format!(
                "the inputs yield different structures or dtypes: {first} (input 0) and {other} (input {}); map them to the same structure and dtypes",
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

/// Returns the narrowest spec that describes both tensors, whose dtypes are the same.
pub(crate) fn widened(one: &TensorSpec, other: &TensorSpec) -> TensorSpec {
    match (one.dims(), other.dims()) {
        (Some(dims), Some(others)) if dims.len() == others.len() => {
            let same = |(dim, other): (&Option<u64>, &Option<u64>)| dim.filter(|_| dim == other);
            let dims: Vec<Option<u64>> = dims.iter().zip(others).map(same).collect();
            TensorSpec::with_dims(one.dtype(), &dims)
        }
        (Some(_) | None, _) => TensorSpec::unknown_rank(one.dtype()),
    }
}

/// Returns `input` with the component `name` replaced by the result of `yields` for its spec. `yields`
/// returns `None` if the component does not have the form `wanted`, which the error names.
pub(crate) fn replaced(
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
        reason: format!("expected component {name:?} to be {wanted}, found {input}"),
    })?;
    ElementSpec::new(input.structure().clone(), components).map_err(|error| AnalysisError::Spec {
        op: op.to_owned(),
        reason: error.to_string(),
    })
}

/// Returns the spec of elements that hold one element of every input: a dict with `names`, or a tuple.
pub(crate) fn side_by_side(names: Option<&[String]>, given: &[&ElementSpec]) -> Result<ElementSpec, String> {
    let structures = given.iter().map(|spec| spec.structure().clone());
    let structure = match names {
        Some(names) => Structure::Dict(names.iter().cloned().zip(structures).collect()),
        None => Structure::Tuple(structures.collect()),
    };
    let components = given.iter().flat_map(|spec| spec.components()).cloned();
    ElementSpec::new(structure, components.collect()).map_err(|error| error.to_string())
}
