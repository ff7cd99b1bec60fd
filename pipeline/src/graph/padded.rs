//! The specs of elements that are padded and stacked.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::{ElementSpec, TensorSpec};

/// Returns the shapes of the components of `input`, whose unknown dimensions are to be padded.
pub(crate) fn own_shapes(input: &ElementSpec) -> Result<Vec<Vec<Option<u64>>>, String> {
    let dims = input.components().iter().map(|component| {
        let unknown = || format!("cannot pad a tensor of unknown rank: {input}");
        component.dims().map(<[_]>::to_vec).ok_or_else(unknown)
    });
    dims.collect()
}

/// Returns the spec of a batch of `size` elements of `input`, padded to `shapes`.
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
