//! The specs of elements that are padded and stacked.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{ElementSpec, TensorSpec};

/// The shapes of `input`, of which unknown dimensions are to be padded.
pub(crate) fn own_shapes(input: &ElementSpec) -> Result<Vec<Vec<Option<u64>>>, String> {
    let dims = input.components().iter().map(|component| {
        let unknown = || format!("it cannot pad a tensor whose rank is unknown: {input}");
        component.dims().map(<[_]>::to_vec).ok_or_else(unknown)
    });
    dims.collect()
}

/// Returns what a batch of elements padded to `shapes` is.
pub(crate) fn stacked(
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
