//! Users' Python code in a pipeline: functions for a map or a flat_map, and iterables as a source. All Python
//! code has one registered name; the parameters contain the code and the spec of its output.
//!
//! On workers, processes of the user's interpreter run the code (`millstream::python`). This module runs the
//! code in the current process: in the trainer, and for debugging. The package's module `_worker` unpacks the
//! code.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use millstream::element::{Dtype, ElementSpec};
use millstream::pipeline::exec::{
    BoxError, Cancel, ErrorKind, ExecError, Functions, PreparedFlatMap, PreparedMap, Source, SourceFactory,
    Tensor, Value,
};
use millstream::pipeline::graph::{Cardinality, Params, SourceSignature};
use millstream::python::{NAME, PythonParams, fitting, raised};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use crate::assembly::objects;
use crate::{array, npy, spec};

/// Adds the Python functions, run in the current process, to `functions`.
pub(crate) fn within(functions: Functions) -> Functions {
    functions
        .with_map(NAME, prepared)
        .with_flat_map(NAME, prepared_flat)
        .with_source(NAME, Iterables::default())
}

/// Adds the Python functions to `functions`, run by processes of the interpreter `program`. Without
/// `program`, uses the interpreter that the environment names, or else the current interpreter.
#[cfg(target_os = "linux")]
pub(crate) fn beside(functions: Functions, program: Option<&str>) -> PyResult<Functions> {
    use millstream::python::{Interpreter, registered};

    let own = || {
        Python::attach(|py| {
            let sys = py.import("sys")?;
            let paths: Vec<String> = sys.getattr("path")?.extract()?;
            let found: Vec<String> = paths.into_iter().filter(|path| !path.is_empty()).collect();
            let version = sys.getattr("version_info")?;
            let (major, minor): (u32, u32) =
                (version.get_item(0)?.extract()?, version.get_item(1)?.extract()?);
            let implementation = sys.getattr("implementation")?.getattr("name")?.extract()?;
            PyResult::Ok(Interpreter {
                search_path: Some(found.join(":")),
                version: Some((implementation, format!("{major}.{minor}"))),
                ..Interpreter::new(sys.getattr("executable")?.extract::<String>()?)
            })
        })
    };
    let interpreter = match program {
        Some(program) => Interpreter::new(program),
        None => Interpreter::named().map_or_else(own, Ok)?,
    };
    Ok(registered(functions, interpreter))
}

/// Adds the Python functions, run in the current process: only Linux supports supervised processes.
#[cfg(not(target_os = "linux"))]
pub(crate) fn beside(functions: Functions, _: Option<&str>) -> PyResult<Functions> {
    Ok(within(functions))
}

/// Returns the functions with iterables that are taken from `held` instead of their code.
pub(crate) fn holding(functions: &Functions, held: HashMap<Vec<u8>, Py<PyAny>>) -> Functions {
    functions.clone().with_source(NAME, Iterables { held })
}

/// Returns parameters that contain the code and the spec of its output.
pub(crate) fn params(output: &ElementSpec, code: &[u8]) -> Params {
    let (output, code) = (output.clone(), code.to_vec());
    PythonParams { output, code }.to_params()
}

fn called(maker: &str, code: &[u8], input: &ElementSpec, output: &ElementSpec) -> Result<Py<PyAny>, String> {
    let function = Python::attach(|py| {
        let specs = (spec::to_python(py, input)?, spec::to_python(py, output)?);
        let given = (PyBytes::new(py, code), specs.0, specs.1);
        let function = py.import("millstream._worker")?.call_method1(maker, given)?;
        Ok(function.unbind())
    });
    function.map_err(|error: PyErr| failure(&error).to_string())
}

fn call<'py>(py: Python<'py>, function: &Py<PyAny>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    let components: PyResult<Vec<_>> = value.iter().map(|tensor| object(py, tensor)).collect();
    function.bind(py).call1((PyList::new(py, components?)?,))
}

fn prepared(params: &Params, input: &ElementSpec) -> Result<PreparedMap, String> {
    let PythonParams { output, code } = PythonParams::from_params(params)?;
    let function = called("function", &code, input, &output)?;
    let yields = output.clone();
    let call = Arc::new(move |value: Value| -> Result<Value, BoxError> {
        let made = Python::attach(|py| leaves(&call(py, &function, &value)?));
        let made = made.map_err(|error| failure(&error))?;
        Ok(fitting(made, &yields)?)
    });
    Ok(PreparedMap { output, call })
}

fn prepared_flat(params: &Params, input: &ElementSpec) -> Result<PreparedFlatMap, String> {
    let PythonParams { output, code } = PythonParams::from_params(params)?;
    let function = called("flat_function", &code, input, &output)?;
    let yields = output.clone();
    let call = Arc::new(
        move |value: Value, _: &Cancel| -> Result<Box<dyn Source>, BoxError> {
            let iterator = Python::attach(|py| Ok(call(py, &function, &value)?.unbind()));
            let iterator = iterator.map_err(|error: PyErr| failure(&error))?;
            let output = yields.clone();
            Ok(Box::new(Iterating {
                iterator,
                output,
                goes_on: false,
            }))
        },
    );
    Ok(PreparedFlatMap { output, call })
}

/// The factory of sources that iterate over a Python iterable. A source of an iterable has no splits.
#[derive(Debug, Default)]
struct Iterables {
    /// The functions of this process that make iterables, by the code that stands for them.
    held: HashMap<Vec<u8>, Py<PyAny>>,
}

struct Iterating {
    iterator: Py<PyAny>,
    output: ElementSpec,
    /// Whether the iterator continues with the next element after an exception.
    goes_on: bool,
}

impl SourceFactory for Iterables {
    fn signature(&self, params: &Params) -> Result<SourceSignature, String> {
        Ok(SourceSignature {
            spec: PythonParams::from_params(params)?.output,
            cardinality: Cardinality::Unknown,
            indexable: false,
        })
    }

    fn open(&self, params: &Params, _: Range<u64>) -> Result<Box<dyn Source>, ExecError> {
        let refused = |reason| ExecError::new(ErrorKind::Caller, NAME, reason);
        let PythonParams { output, code } = PythonParams::from_params(params).map_err(refused)?;
        let opened = Python::attach(|py| {
            let worker = py.import("millstream._worker")?;
            let yields = spec::to_python(py, &output)?;
            let iterator = match self.held.get(&code) {
                Some(held) => worker.call_method1("iterated", (held, yields))?,
                None => worker.call_method1("iterate", (PyBytes::new(py, &code), yields))?,
            };
            let goes_on = iterator.getattr("goes_on")?.is_truthy()?;
            Ok((iterator.unbind(), goes_on))
        });
        let (iterator, goes_on) = opened.map_err(|error: PyErr| failure(&error))?;
        Ok(Box::new(Iterating {
            iterator,
            output,
            goes_on,
        }))
    }
}

impl Source for Iterating {
    fn next(&mut self) -> Result<Option<Value>, ExecError> {
        let next = Python::attach(|py| {
            let mut iterator = self.iterator.bind(py).cast::<pyo3::types::PyIterator>()?.clone();
            iterator.next().transpose()?.as_ref().map(leaves).transpose()
        });
        let next = next.map_err(|error| failure(&error));
        let fit = next.and_then(|next| next.map(|value| fitting(value, &self.output)).transpose());
        fit.map_err(|error| if self.goes_on { error.of_element() } else { error })
    }
}

/// Returns a tensor as an argument for a Python function. The data is copied.
fn object<'py>(py: Python<'py>, tensor: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    let settled = tensor
        .settled()
        .map_err(|error| crate::failure::execution(&error))?;
    if settled.dtype().item_bytes().is_some() {
        let described = py
            .import("millstream._dtypes")?
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

/// Returns the tensors of an element that the package's module `_worker` has converted: the dtype, the shape
/// and the data of each leaf, in order.
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

/// Converts a Python exception to the failure of a user's function.
fn failure(error: &PyErr) -> ExecError {
    let told = Python::attach(|py| {
        let told = py
            .import("millstream._worker")?
            .call_method1("told", (error.value(py), error.traceback(py)))?;
        told.extract::<(String, String)>()
    });
    let (message, traceback) = told.unwrap_or_else(|_| (error.to_string(), String::new()));
    raised(message, traceback)
}
