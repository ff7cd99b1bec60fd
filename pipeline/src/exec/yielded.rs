//! The check that compares the elements of a source or function with its spec.

use millstream_element::ElementSpec;

use super::error::{ErrorKind, ExecError};
use super::value::Value;

/// Checks that an element of a source or function matches its declared spec.
pub(crate) fn check(name: &str, spec: &ElementSpec, value: &Value) -> Result<(), ExecError> {
    let wrong = |message: String| Err(ExecError::new(ErrorKind::UserFunction, name, message));
    if value.len() != spec.components().len() {
        return wrong(format!(
            "expected an element of {spec}, found {} components",
            value.len()
        ));
    }
    for (index, (tensor, component)) in value.iter().zip(spec.components()).enumerate() {
        if !tensor.fits(component) {
            let (dtype, dims) = (tensor.dtype(), tensor.dims());
            return wrong(format!(
                "expected an element of {spec}, found {dtype}{dims:?} as component {index}"
            ));
        }
    }
    Ok(())
}
