//! Specs in which a component is something else.

use millstream_element::{Dtype, ElementSpec, TensorSpec};

use crate::graph::expr::column_of;

/// `input` with `output` in place of the component `name`, which is to be what `accepts` says.
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
        return Err(format!("component {name:?} should be {wanted}: {input}"));
    }
    components[position] = output;
    ElementSpec::new(input.structure().clone(), components).map_err(|error| error.to_string())
}

/// Returns whether `spec` may be one string or byte string.
pub(crate) fn is_string(spec: &TensorSpec) -> bool {
    spec.accepts(Dtype::Bytes, &[]) || spec.accepts(Dtype::String, &[])
}
