//! Specs with one component replaced.

use millstream_element::{Dtype, ElementSpec, TensorSpec};

use crate::graph::expr::column_of;

/// Returns `input` with the component `name` replaced by `output`. The component must satisfy `accepts`;
/// `wanted` describes the expected component in the error.
pub(crate) fn replaced(
    input: &ElementSpec,
    name: &str,
    wanted: &str,
    accepts: impl Fn(&TensorSpec) -> bool,
    output: TensorSpec,
) -> Result<ElementSpec, String> {
    let position = column_of(name, input)?;
    let mut components = input.components().to_vec();
    if !accepts(&components[position]) {
        return Err(format!(
            "expected component {name:?} to be {wanted}, found {input}"
        ));
    }
    components[position] = output;
    ElementSpec::new(input.structure().clone(), components).map_err(|error| error.to_string())
}

/// Returns whether `spec` accepts a single string or byte string.
pub(crate) fn is_string(spec: &TensorSpec) -> bool {
    spec.accepts(Dtype::Bytes, &[]) || spec.accepts(Dtype::String, &[])
}
