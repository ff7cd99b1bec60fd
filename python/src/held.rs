//! The code of this process that a dataset runs as it is. Other processes run copies.
//!
//! Owns the way from a definition to the Python objects that its code stands for. The package's module
//! `_local_code` makes the objects, and reads the header of code.

use std::collections::HashMap;
use std::sync::Arc;

use millstream::pipeline::exec::Functions;
use millstream::pipeline::graph::{Graph as Definition, Params};
use millstream::python::{NAME, PythonParams};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::code;
use crate::failure::raise;

/// The objects of a dataset's code. The objects live as long as a dataset with the code.
#[derive(Debug, Clone, Default)]
pub(crate) struct Held(Option<Arc<[Py<PyAny>]>>);

impl Held {
    /// Finds the objects that the code of `graph` stands for.
    pub(crate) fn of(graph: &Definition) -> PyResult<Held> {
        let sources = graph.source_params(NAME);
        if sources.is_empty() {
            return Ok(Held::default());
        }
        let mut held = Vec::new();
        for params in sources {
            held.extend(found(&decoded(params)?.code)?.map(|(_, object)| object));
        }
        Ok(Held((!held.is_empty()).then(|| held.into())))
    }

    /// Returns a definition that does not depend on this process, and functions that run its code as it is.
    /// Equal datasets have equal definitions, unless they run different objects of equal code.
    pub(crate) fn within(
        &self,
        mut graph: Definition,
        functions: Arc<Functions>,
    ) -> PyResult<(Definition, Arc<Functions>)> {
        if self.0.is_none() {
            return Ok((graph, functions));
        }
        let mut held: HashMap<Vec<u8>, Py<PyAny>> = HashMap::new();
        graph.change_source_params(NAME, &mut |params| {
            let PythonParams { output, code } = decoded(params)?;
            let Some((plain, object)) = found(&code)? else {
                return PyResult::Ok(params.clone());
            };
            let (mut code, mut number) = (plain.clone(), 0);
            while held.get(&code).is_some_and(|other| !other.is(&object)) {
                number += 1;
                code = [&*plain, format!("#{number}").as_bytes()].concat();
            }
            let params = PythonParams {
                output,
                code: code.clone(),
            };
            held.insert(code, object);
            Ok(params.to_params())
        })?;
        let calls: PyResult<HashMap<_, _>> = Python::attach(|py| {
            let call = |(code, object): (_, Py<PyAny>)| Ok((code, object.getattr(py, "call")?));
            held.into_iter().map(call).collect()
        });
        Ok((graph, Arc::new(code::holding(&functions, calls?))))
    }
}

/// Returns a definition whose code other processes can run.
///
/// # Errors
/// `InvalidArgumentError` if the code cannot be copied.
pub(crate) fn sent(mut graph: Definition) -> PyResult<Definition> {
    graph.change_source_params(NAME, &mut |params| {
        let PythonParams { output, code } = decoded(params)?;
        let code = Python::attach(|py| {
            let sent = module(py)?.call_method1("sent", (PyBytes::new(py, &code),))?;
            sent.extract()
        });
        PyResult::Ok(PythonParams { output, code: code? }.to_params())
    })?;
    Ok(graph)
}

/// Returns the code without its key, and the object that the code stands for; `None` for other code.
fn found(code: &[u8]) -> PyResult<Option<(Vec<u8>, Py<PyAny>)>> {
    Python::attach(|py| {
        let found = module(py)?.call_method1("found", (PyBytes::new(py, code),))?;
        found.extract()
    })
}

fn module(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    Ok(py.import("millstream._local_code")?.cast_into()?)
}

fn decoded(params: &Params) -> PyResult<PythonParams> {
    PythonParams::from_params(params).map_err(|reason| raise("InvalidArgumentError", reason))
}
