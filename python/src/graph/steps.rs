//! Operations by name, through the library's operation table, and changes to the last operation.

use millstream::pipeline::exec::Functions;
use millstream::pipeline::graph::Dataset;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::Graph;
use super::parameters::named;
use crate::failure;

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
        Graph::joining(&graphs.iter().collect::<Vec<_>>(), dataset)
    }

    fn drawn_alike(&self) -> PyResult<Graph> {
        self.step(|dataset| dataset.drawn_alike())
    }

    /// Returns the dataset as an exactly-once job reads it. Operations without a seed draw with `seed`.
    fn exactly_once(&self, seed: u64) -> PyResult<Graph> {
        let graph = self.dataset().graph().map_err(failure::dataset)?;
        let exact = graph.for_exactly_once(seed, &Functions::new());
        let exact = exact.map_err(|error| failure::raise("InvalidArgumentError", error))?;
        Graph::new(exact.into())
    }

    /// Returns the dataset with the same elements in the same order in every process.
    fn same_everywhere(&self, seed: u64) -> PyResult<Graph> {
        let graph = self.dataset().graph().map_err(failure::dataset)?;
        Graph::new(graph.same_everywhere(seed).into())
    }

    /// Returns whether the dataset yields on its splits alone the elements of the whole source.
    fn is_alike_on_splits(&self) -> PyResult<bool> {
        let graph = self.dataset().graph().map_err(failure::dataset)?;
        let is_alike = graph.is_alike_on_splits(&Functions::new());
        is_alike.map_err(|error| failure::raise("InvalidArgumentError", error))
    }

    /// Returns the number of splits, of elements of every split except the last one, and of elements of the
    /// last split. Returns `None` if the dataset does not determine these numbers.
    fn split_counts(&self) -> PyResult<Option<(u64, u64, u64)>> {
        let graph = self.dataset().graph().map_err(failure::dataset)?;
        let counts = graph.split_counts(&Functions::new());
        let counts = counts.map_err(|error| failure::raise("InvalidArgumentError", error))?;
        Ok(counts.map(|counts| (counts.splits, counts.each, counts.last)))
    }

    fn split_size(&self, positions: u64) -> PyResult<Graph> {
        self.step(|dataset| dataset.split_size(positions))
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
}

fn operation(
    name: &str,
    parameters: Option<&Bound<'_, PyDict>>,
    inputs: impl IntoIterator<Item = Dataset>,
) -> PyResult<Dataset> {
    let made = Dataset::operation(name, named(parameters)?, inputs);
    made.map_err(|error| failure::raise("InvalidArgumentError", error))
}
