//! What the operations yield that make one element of several, or a dataset of each group of elements.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{Dtype, ElementSpec, Structure, TensorSpec};

use super::definition::Graph;
use super::error::AnalysisError;
use super::group::{Buckets, Grouping, PaddedBatch, Padding, WindowSize};
use super::op::Batch;
use super::registry::Registry;
use super::spec::node_specs;

/// What `padded_batch` makes of elements of `input`.
pub(super) fn padded_spec(batch: &PaddedBatch, input: &ElementSpec) -> Result<ElementSpec, String> {
    let shapes = padded_shapes(batch, input)?;
    for (index, value) in batch.values.iter().enumerate() {
        let item = input.components().get(index).map(TensorSpec::dtype);
        let fits = item.is_some_and(|dtype| dtype.item_bytes().is_none_or(|bytes| bytes == value.len()));
        if !fits || batch.values.len() != input.components().len() {
            return Err(format!(
                "its padding values are to be one item of each component of {input}"
            ));
        }
    }
    stacked(input, &shapes, batch.drop_remainder.then_some(batch.size))
}

/// The shape that each component is padded to.
pub(crate) fn padded_shapes(
    batch: &PaddedBatch,
    input: &ElementSpec,
) -> Result<Vec<Vec<Option<u64>>>, String> {
    if batch.shapes.is_empty() {
        return own_shapes(input);
    }
    if batch.shapes.len() != input.components().len() {
        return Err(format!(
            "it pads {} components to a shape, and is given {input}",
            batch.shapes.len()
        ));
    }
    for (shape, component) in batch.shapes.iter().zip(input.components()) {
        let Some(dims) = component.dims() else { continue };
        let is_longer =
            |(dim, to): (&Option<u64>, &Option<u64>)| matches!((dim, to), (Some(dim), Some(to)) if dim > to);
        if dims.len() != shape.len() || dims.iter().zip(shape).any(is_longer) {
            return Err(format!(
                "it cannot pad {component} to {}",
                TensorSpec::with_dims(component.dtype(), shape)
            ));
        }
    }
    Ok(batch.shapes.clone())
}

/// The shapes of `input`, of which unknown dimensions are to be padded.
pub(crate) fn own_shapes(input: &ElementSpec) -> Result<Vec<Vec<Option<u64>>>, String> {
    let dims = input.components().iter().map(|component| {
        let unknown = || format!("it cannot pad a tensor whose rank is unknown: {input}");
        component.dims().map(<[_]>::to_vec).ok_or_else(unknown)
    });
    dims.collect()
}

fn stacked(
    input: &ElementSpec,
    shapes: &[Vec<Option<u64>>],
    size: Option<u64>,
) -> Result<ElementSpec, String> {
    let components = input.components().iter().zip(shapes);
    let padded = components.map(|(component, shape)| TensorSpec::with_dims(component.dtype(), shape));
    ElementSpec::new(input.structure().clone(), padded.collect())
        .and_then(|spec| spec.batched(size))
        .map_err(|error| error.to_string())
}

/// What `ragged_batch` makes of elements of `input`.
pub(super) fn ragged_spec(batch: Batch, input: &ElementSpec) -> Result<ElementSpec, String> {
    let size = batch.drop_remainder.then_some(batch.size);
    // Refuses composites, and ranks that are too high.
    let dense = input.batched(size).map_err(|error| error.to_string())?;
    let mut components = Vec::new();
    let mut ranks = Vec::new();
    for (component, dense) in input.components().iter().zip(dense.components()) {
        let rank = ragged_rank(component)?;
        ranks.push(rank);
        if rank == 0 {
            components.push(dense.clone());
            continue;
        }
        let dims = component.dims().unwrap_or_default();
        let inner = dims.get(usize::from(rank)..).unwrap_or_default();
        let values: Vec<Option<u64>> = std::iter::once(None).chain(inner.iter().copied()).collect();
        components.push(TensorSpec::with_dims(component.dtype(), &values));
        components.push(TensorSpec::with_dims(Dtype::I64, &[size.map(|size| size + 1)]));
        components.extend((1..rank).map(|_| TensorSpec::with_dims(Dtype::I64, &[None])));
    }
    let structure = with_ragged(input.structure(), &mut ranks.iter().copied());
    ElementSpec::new(structure, components).map_err(|error| error.to_string())
}

/// How many dimensions of a batch of such tensors are ragged: all up to the last unknown one; 0 = none is.
pub(crate) fn ragged_rank(component: &TensorSpec) -> Result<u8, String> {
    let dims = component
        .dims()
        .ok_or_else(|| format!("it cannot make a ragged tensor of {component}, whose rank is unknown"))?;
    let last = dims.iter().rposition(Option::is_none);
    // A tensor has at most 16 dimensions.
    Ok(last.map_or(0, |last| last as u8 + 1))
}

/// `structure` with ragged tensors of these ranks for its leaves.
fn with_ragged(structure: &Structure, ranks: &mut impl Iterator<Item = u8>) -> Structure {
    match structure {
        Structure::Leaf => match ranks.next() {
            None | Some(0) => Structure::Leaf,
            Some(ragged_rank) => Structure::Ragged { ragged_rank },
        },
        Structure::Tuple(items) => {
            Structure::Tuple(items.iter().map(|item| with_ragged(item, ranks)).collect())
        }
        Structure::List(items) => {
            Structure::List(items.iter().map(|item| with_ragged(item, ranks)).collect())
        }
        Structure::Dict(entries) => {
            let entries = entries.iter();
            let ragged = entries.map(|(name, item)| (name.clone(), with_ragged(item, ranks)));
            Structure::Dict(ragged.collect())
        }
        Structure::Ragged { .. } | Structure::Sparse | Structure::None => structure.clone(),
    }
}

/// What `bucket_by_sequence_length` makes of elements of `input`.
pub(super) fn bucket_spec(buckets: &Buckets, input: &ElementSpec) -> Result<ElementSpec, String> {
    let first = buckets.batch_sizes.first().copied();
    let one_size = first.filter(|first| buckets.batch_sizes.iter().all(|size| size == first));
    let size = one_size.filter(|_| buckets.drop_remainder);
    match buckets.padding {
        Padding::Longest | Padding::Boundary => stacked(input, &own_shapes(input)?, size),
        Padding::None => input.batched(size).map_err(|error| error.to_string()),
    }
}

/// What `group_by_window` makes of elements of `input`.
pub(super) fn grouped_spec(
    grouping: &Grouping,
    registry: &dyn Registry,
    input: &ElementSpec,
    key: &ElementSpec,
) -> Result<ElementSpec, AnalysisError> {
    wants_number("the key", &grouping.key, registry, input)?;
    match &grouping.size {
        WindowSize::Fixed(_) => {}
        WindowSize::ByKey(size) => wants_number("the size of a window", size, registry, key)?,
    }
    reduced_spec("group_by_window", &grouping.reduce, registry, input)
}

/// What `reduce` makes of windows of elements of `input`.
pub(super) fn reduced_spec(
    op: &str,
    reduce: &Graph,
    registry: &dyn Registry,
    input: &ElementSpec,
) -> Result<ElementSpec, AnalysisError> {
    let output = node_specs(reduce, registry, Some(input))?.pop();
    output.ok_or_else(|| AnalysisError::Mismatch {
        op: op.to_owned(),
        reason: "it has no function".to_owned(),
    })
}

/// Refuses a function that makes anything but an `i64` of elements of `input`.
pub(super) fn wants_number(
    what: &str,
    function: &Graph,
    registry: &dyn Registry,
    input: &ElementSpec,
) -> Result<(), AnalysisError> {
    let output = node_specs(function, registry, Some(input))?.pop();
    let is_number = |spec: &ElementSpec| match spec.components() {
        [only] => only.accepts(Dtype::I64, &[]),
        _ => false,
    };
    match output {
        Some(output) if is_number(&output) => Ok(()),
        found => Err(AnalysisError::Mismatch {
            op: what.to_owned(),
            reason: format!(
                "it is to be an i64 scalar, and is {}",
                found.map_or_else(|| "nothing".to_owned(), |spec| spec.to_string())
            ),
        }),
    }
}
