//! Python's own code in a pipeline: functions that a map or a flat_map calls, and iterables that are a source. Known by one
//! name, with the code and what it yields as parameters.
//!
//! Runs wherever the pipeline does, if that is a process of Python: in the trainer, or on a worker that Python started. What
//! code means, and how it got there, the package's module `worker` knows.

use std::ops::Range;
use std::sync::Arc;

use millstream::element::{Dtype, ElementSpec};
use millstream::pipeline::exec::{
    BoxError, Cancel, ErrorKind, ExecError, Functions, PreparedFlatMap, PreparedMap, Source, SourceFactory,
    Tensor, Value,
};
use millstream::pipeline::graph::{Cardinality, Params, SourceSignature};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::assembly::objects;
use crate::{array, npy, spec};

/// The name that stands in graphs.
pub(crate) const NAME: &str = "python";

/// Bytes of the length of the spec, before the spec and the code.
const LENGTH_BYTES: usize = 4;

/// The functions, and Python's.
pub(crate) fn registered(functions: Functions) -> Functions {
    functions
        .with_map(NAME, prepared)
        .with_flat_map(NAME, prepared_flat)
        .with_source(NAME, Iterables)
}

/// Parameters with what code yields and the code.
pub(crate) fn params(output: &ElementSpec, code: &[u8]) -> Params {
    let spec = output.to_bytes();
    // A spec has a few kilobytes at most.
    let mut bytes = (spec.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&spec);
    bytes.extend_from_slice(code);
    Params::from_bytes(bytes)
}

fn parts(params: &Params) -> Result<(ElementSpec, &[u8]), String> {
    let short = || "its parameters are cut short".to_owned();
    let (length, rest) = params
        .as_bytes()
        .split_first_chunk::<LENGTH_BYTES>()
        .ok_or_else(short)?;
    let (spec, code) = rest
        .split_at_checked(u32::from_le_bytes(*length) as usize)
        .ok_or_else(short)?;
    let spec = ElementSpec::from_bytes(spec).map_err(|error| error.to_string())?;
    Ok((spec, code))
}

/// What the package's function of this name makes of code that is called with elements of `input`.
fn called(maker: &str, code: &[u8], input: &ElementSpec) -> Result<Py<PyAny>, String> {
    let function = Python::attach(|py| {
        let given = (PyBytes::new(py, code), spec::to_python(py, input)?);
        let function = py.import("millstream.worker")?.call_method1(maker, given)?;
        Ok(function.unbind())
    });
    function.map_err(|error: PyErr| failure(&error).to_string())
}

fn call<'py>(py: Python<'py>, function: &Py<PyAny>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    let components: PyResult<Vec<_>> = value.iter().map(|tensor| object(py, tensor)).collect();
    function.bind(py).call1((PyList::new(py, components?)?,))
}

fn prepared(params: &Params, input: &ElementSpec) -> Result<PreparedMap, String> {
    let (output, code) = parts(params)?;
    let function = called("function", code, input)?;
    let yields = output.clone();
    let call = Arc::new(move |value: Value| -> Result<Value, BoxError> {
        let made = Python::attach(|py| leaves(&call(py, &function, &value)?));
        let made = made.map_err(|error| failure(&error))?;
        Ok(fitting(made, &yields)?)
    });
    Ok(PreparedMap { output, call })
}

fn prepared_flat(params: &Params, input: &ElementSpec) -> Result<PreparedFlatMap, String> {
    let (output, code) = parts(params)?;
    let function = called("flat_function", code, input)?;
    let yields = output.clone();
    let call = Arc::new(
        move |value: Value, _: &Cancel| -> Result<Box<dyn Source>, BoxError> {
            let iterator = Python::attach(|py| Ok(call(py, &function, &value)?.unbind()));
            let iterator = iterator.map_err(|error: PyErr| failure(&error))?;
            let output = yields.clone();
            Ok(Box::new(Iterating { iterator, output }))
        },
    );
    Ok(PreparedFlatMap { output, call })
}

/// What iterables yield, as a source that is read whole.
#[derive(Debug)]
struct Iterables;

struct Iterating {
    iterator: Py<PyAny>,
    output: ElementSpec,
}

impl SourceFactory for Iterables {
    fn signature(&self, params: &Params) -> Result<SourceSignature, String> {
        Ok(SourceSignature {
            spec: parts(params)?.0,
            cardinality: Cardinality::Unknown,
            indexable: false,
        })
    }

    fn open(&self, params: &Params, _: Range<u64>) -> Result<Box<dyn Source>, ExecError> {
        let (output, code) =
            parts(params).map_err(|reason| ExecError::new(ErrorKind::Caller, NAME, reason))?;
        let iterator = Python::attach(|py| {
            let iterator = py
                .import("millstream.worker")?
                .call_method1("iterate", (PyBytes::new(py, code),))?;
            Ok(iterator.unbind())
        });
        let iterator = iterator.map_err(|error: PyErr| failure(&error))?;
        Ok(Box::new(Iterating { iterator, output }))
    }
}

impl Source for Iterating {
    fn next(&mut self) -> Result<Option<Value>, ExecError> {
        let next = Python::attach(|py| {
            let mut iterator = self.iterator.bind(py).cast::<pyo3::types::PyIterator>()?.clone();
            iterator.next().transpose()?.as_ref().map(leaves).transpose()
        });
        let next = next.map_err(|error| failure(&error))?;
        next.map(|value| fitting(value, &self.output)).transpose()
    }
}

/// A tensor as Python sees it in a function: a copy.
fn object<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    let settled = tensor
        .settled()
        .map_err(|error| crate::failure::execution(&error))?;
    if settled.dtype().item_bytes().is_some() {
        let described = py
            .import("millstream.dtypes")?
            .call_method1("numpy_dtype", (settled.dtype().to_string(),))?;
        let bytes = settled.contiguous().unwrap_or_default();
        return if settled.dims().is_empty() {
            npy::scalar(&described, bytes)
        } else {
            array::copy(&described, settled.dims(), bytes)
        };
    }
    let mut items = Vec::new();
    settled.for_each_string(&mut |item| items.push(text(py, settled.dtype(), item)));
    if settled.dims().is_empty() {
        return Ok(items
            .into_iter()
            .next()
            .unwrap_or_else(|| py.None().into_bound(py)));
    }
    objects(py, items, settled.dims())
}

fn text<'py>(py: Python<'py>, dtype: Dtype, bytes: &[u8]) -> Bound<'py, PyAny> {
    match std::str::from_utf8(bytes) {
        Ok(text) if dtype == Dtype::String => PyString::new(py, text).into_any(),
        Ok(_) | Err(_) => PyBytes::new(py, bytes).into_any(),
    }
}

/// The tensors of what `worker` makes of an element: dtypes, shapes and data, in order.
fn leaves(made: &Bound<'_, PyAny>) -> PyResult<Value> {
    let mut value = Value::new();
    for leaf in made.try_iter()? {
        let (code, dims, data): (String, Vec<u64>, Bound<'_, PyAny>) = leaf?.extract()?;
        let dtype = spec::dtype(&code)?;
        let tensor = if let Ok(bytes) = data.cast::<PyBytes>() {
            Tensor::fixed(dtype, &dims, bytes.as_bytes().to_vec())
        } else {
            let items: Vec<Vec<u8>> = data.extract()?;
            Tensor::strings(dtype, &dims, items.into_iter().map(Into::into).collect())
        };
        value.push(tensor.map_err(|reason| crate::failure::raise("InvalidArgumentError", reason))?);
    }
    Ok(value)
}

/// The value, if it is what was declared.
fn fitting(value: Value, output: &ElementSpec) -> Result<Value, ExecError> {
    let specs = output.components();
    let fits = value.len() == specs.len() && value.iter().zip(specs).all(|(tensor, spec)| tensor.fits(spec));
    if fits {
        return Ok(value);
    }
    let found: Vec<String> = value
        .iter()
        .map(|tensor| format!("{}{:?}", tensor.dtype(), tensor.dims()))
        .collect();
    let message = format!(
        "yields {}, which is not what was declared or found at first: {output}. State what varies by element_spec",
        found.join(", ")
    );
    Err(ExecError::new(ErrorKind::UserFunction, NAME, message))
}

/// An exception as the failure of a user's function.
fn failure(error: &PyErr) -> ExecError {
    let told = Python::attach(|py| {
        let told = py
            .import("millstream.worker")?
            .call_method1("told", (error.value(py), error.traceback(py)))?;
        told.extract::<(String, String)>()
    });
    let (message, traceback) = told.unwrap_or_else(|_| (error.to_string(), String::new()));
    ExecError::new(ErrorKind::UserFunction, NAME, message).with_traceback(traceback)
}
