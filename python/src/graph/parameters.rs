//! Conversion of operations' parameters from Python to the form of the library's operation table.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyString};
use serde_json::{Map, Number, Value};

/// Returns the parameters by name.
///
/// # Errors
/// `TypeError` for a value that is not a number, text, bytes, a list, a dict or `None`.
pub(super) fn named(parameters: Option<&Bound<'_, PyDict>>) -> PyResult<Map<String, Value>> {
    let Some(parameters) = parameters else {
        return Ok(Map::new());
    };
    let pairs = parameters.iter();
    pairs
        .map(|(name, given)| Ok((name.extract::<String>()?, value(&given)?)))
        .collect()
}

fn value(given: &Bound<'_, PyAny>) -> PyResult<Value> {
    if given.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(flag) = given.cast::<PyBool>() {
        return Ok(Value::Bool(flag.is_true()));
    }
    // Types like NumPy's integers are whole numbers without being `int`.
    if let Ok(number) = given.extract::<i64>() {
        return Ok(Value::from(number));
    }
    if let Ok(number) = given.extract::<u64>() {
        return Ok(Value::from(number));
    }
    if let Ok(text) = given.cast::<PyString>() {
        return Ok(Value::String(text.to_str()?.to_owned()));
    }
    if let Ok(bytes) = given.cast::<PyBytes>() {
        return Ok(Value::from(bytes.as_bytes()));
    }
    if let Ok(entries) = given.cast::<PyDict>() {
        return named(Some(entries)).map(Value::Object);
    }
    if let Ok(number) = given.extract::<f64>() {
        let number = Number::from_f64(number).map(Value::Number);
        return number.ok_or_else(|| PyTypeError::new_err("invalid parameter: expected a finite number"));
    }
    let items = given.try_iter()?;
    items
        .map(|item| value(&item?))
        .collect::<PyResult<Vec<Value>>>()
        .map(Value::Array)
}
