//! The check of what a source or function yields against what it said it would yield.

use millstream_element::ElementSpec;

use super::error::{ErrorKind, ExecError};
use super::value::Value;

/// Checks that a source or function yields what it said it would.
pub(crate) fn check(name: &str, spec: &ElementSpec, value: &Value) -> Result<(), ExecError> {
    let wrong = |message: String| Err(ExecError::new(ErrorKind::UserFunction, name, message));
    if value.len() != spec.components().len() {
        return wrong(format!("yielded {} components, its spec is {spec}", value.len()));
    }
    for (index, (tensor, component)) in value.iter().zip(spec.components()).enumerate() {
        if !tensor.fits(component) {
            let (dtype, dims) = (tensor.dtype(), tensor.dims());
            return wrong(format!(
                "yielded {dtype}{dims:?} as component {index}, its spec is {spec}"
            ));
        }
    }
    Ok(())
}
