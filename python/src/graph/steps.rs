//! Operations by name, through the library's operation table, and changes to the last operation.

use millstream::pipeline::graph::{
    Autotune, Dataset, ErrorPolicy, ExternalState, Options, Packing, Threading, Travel,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::Graph;
use super::parameters::named;
use crate::failure;
use crate::spec::dtype;

#[pymethods]
impl Graph {
    /// Returns this dataset with the operation of this name added. Parameters are passed by name.
    #[pyo3(signature = (name, /, **parameters))]
    fn then(&self, name: &str, parameters: Option<&Bound<'_, PyDict>>) -> PyResult<Graph> {
        self.made(operation(name, parameters, [self.dataset()])?)
    }

    /// Returns a dataset from an operation without an input.
    #[staticmethod]
    #[pyo3(signature = (name, /, **parameters))]
    fn source(name: &str, parameters: Option<&Bound<'_, PyDict>>) -> PyResult<Graph> {
        Graph::new(operation(name, parameters, [])?)
    }

    /// Returns a dataset from an operation with several inputs.
    #[staticmethod]
    #[pyo3(signature = (graphs, name, /, **parameters))]
    fn joined(graphs: Vec<Graph>, name: &str, parameters: Option<&Bound<'_, PyDict>>) -> PyResult<Graph> {
        let dataset = operation(name, parameters, graphs.iter().map(Dataset::from))?;
        // Within a function, the dataset is built on the function's argument if one of its inputs is.
        match graphs.iter().find(|graph| graph.is_built_within()) {
            Some(graph) => graph.made(dataset),
            None => Graph::new(dataset),
        }
    }

    fn drawn_alike(&self) -> PyResult<Graph> {
        self.step(|dataset| dataset.drawn_alike())
    }

    fn snapshot(&self, path: String, packing: &str) -> PyResult<Graph> {
        let packing = match packing {
            "none" => Packing::None,
            "lz4" => Packing::Lz4,
            "gzip" => Packing::Gzip,
            other => {
                return Err(PyValueError::new_err(format!(
                    "invalid compression {other:?}: expected none, lz4 or gzip"
                )));
            }
        };
        self.step(|dataset| dataset.snapshot(path, packing))
    }

    fn split_size(&self, positions: u64) -> PyResult<Graph> {
        self.step(|dataset| dataset.split_size(positions))
    }

    fn parse_int(&self, component: String) -> PyResult<Graph> {
        self.step(|dataset| dataset.parse_int(component))
    }

    fn parse_float(&self, component: String, dtype_name: &str) -> PyResult<Graph> {
        let dtype = dtype(dtype_name)?;
        self.step(|dataset| dataset.parse_float(component, dtype))
    }

    /// Sets the number of threads of the last operation; 0 chooses the number automatically.
    fn parallel(&self, threads: u32) -> PyResult<Graph> {
        self.step(|dataset| dataset.parallel(threads))
    }

    /// Sets whether the last operation keeps the order of its elements.
    fn in_order(&self, ordered: bool) -> PyResult<Graph> {
        self.step(|dataset| {
            if ordered {
                dataset.ordered()
            } else {
                dataset.unordered()
            }
        })
    }

    fn on_error(&self, retries: u32, skips: bool) -> PyResult<Graph> {
        self.step(|dataset| dataset.on_error(ErrorPolicy { retries, skips }))
    }

    /// Sets the compression of elements on a network: `none`, `lz4` or `auto`.
    fn travel(&self, compression: &str) -> PyResult<Graph> {
        let compression = match compression {
            "none" => Travel::Plain,
            "lz4" => Travel::Lz4,
            "auto" => Travel::Auto,
            other => {
                return Err(PyValueError::new_err(format!(
                    "invalid compression {other:?}: expected none, lz4 or auto"
                )));
            }
        };
        self.options(Options {
            compression: Some(compression),
            ..Options::default()
        })
    }

    /// Sets the options of execution. Options that are `None` keep their values.
    #[pyo3(signature = (*, deterministic=None, private_threads=None, max_intra_op=None, autotune=None, cpu_budget=None,
        ram_budget=None, external_state=None))]
    #[expect(clippy::too_many_arguments, reason = "each argument is a named option")]
    fn with_options(
        &self,
        deterministic: Option<bool>,
        private_threads: Option<u32>,
        max_intra_op: Option<u32>,
        autotune: Option<bool>,
        cpu_budget: Option<u32>,
        ram_budget: Option<u64>,
        external_state: Option<&str>,
    ) -> PyResult<Graph> {
        let threading = (private_threads.is_some() || max_intra_op.is_some()).then_some(Threading {
            private_threads,
            max_intra_op,
        });
        let tuned = autotune.is_some() || cpu_budget.is_some() || ram_budget.is_some();
        let autotune = tuned.then_some(Autotune {
            enabled: autotune,
            threads: cpu_budget,
            ram_bytes: ram_budget,
        });
        let external_state = match external_state {
            None => None,
            Some("fail") => Some(ExternalState::Fail),
            Some("warn") => Some(ExternalState::Warn),
            Some("ignore") => Some(ExternalState::Ignore),
            Some(other) => {
                return Err(PyValueError::new_err(format!(
                    "invalid policy {other:?}: expected fail, warn or ignore"
                )));
            }
        };
        self.options(Options {
            deterministic,
            threading,
            autotune,
            external_state,
            ..Options::default()
        })
    }
}

impl Graph {
    fn options(&self, options: Options) -> PyResult<Graph> {
        self.step(|dataset| dataset.with_options(options))
    }
}

fn operation(
    name: &str,
    parameters: Option<&Bound<'_, PyDict>>,
    inputs: impl IntoIterator<Item = Dataset>,
) -> PyResult<Dataset> {
    let made = Dataset::operation(name, named(parameters)?, inputs);
    made.map_err(|error| failure::raise("InvalidArgumentError", error))
}
