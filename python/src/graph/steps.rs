//! Operations by name, through the table of the library, and what changes the operation before.

use millstream::pipeline::graph::Dataset;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::Graph;
use super::parameters::named;
use crate::failure;

#[pymethods]
impl Graph {
    /// This dataset with the operation of this name, whose parameters are given by name.
    #[pyo3(signature = (name, /, **parameters))]
    fn then(&self, name: &str, parameters: Option<&Bound<'_, PyDict>>) -> PyResult<Graph> {
        self.made(operation(name, parameters, [self.dataset()])?)
    }

    /// A dataset without an input.
    #[staticmethod]
    #[pyo3(signature = (name, /, **parameters))]
    fn source(name: &str, parameters: Option<&Bound<'_, PyDict>>) -> PyResult<Graph> {
        Graph::new(operation(name, parameters, [])?)
    }

    /// A dataset of several.
    #[staticmethod]
    #[pyo3(signature = (graphs, name, /, **parameters))]
    fn joined(graphs: Vec<Graph>, name: &str, parameters: Option<&Bound<'_, PyDict>>) -> PyResult<Graph> {
        let dataset = operation(name, parameters, graphs.iter().map(Dataset::from))?;
        // Within a function, a dataset of several of which one is built on the argument is built on it too.
        let within = graphs.iter().find(|graph| graph.is_built_within());
        match within.or(graphs.first()) {
            Some(graph) => graph.made(dataset),
            None => Graph::new(dataset),
        }
    }

    fn drawn_alike(&self) -> PyResult<Graph> {
        self.step(|dataset| dataset.drawn_alike())
    }

    fn split_size(&self, positions: u64) -> PyResult<Graph> {
        self.step(|dataset| dataset.split_size(positions))
    }

    /// Threads of what was just added, 0: as many as seem right.
    fn parallel(&self, threads: u32) -> PyResult<Graph> {
        self.step(|dataset| dataset.parallel(threads))
    }

    /// Returns whether what was just added keeps the order of its elements.
    fn in_order(&self, ordered: bool) -> PyResult<Graph> {
        self.step(|dataset| {
            if ordered {
                dataset.ordered()
            } else {
                dataset.unordered()
            }
        })
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
