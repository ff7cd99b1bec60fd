//! Where elements come from, and datasets of several.

use millstream::pipeline::graph::Dataset;
use pyo3::prelude::*;

use super::Graph;
use crate::expr::constant;
use crate::spec;

#[pymethods]
impl Graph {
    #[staticmethod]
    fn range(start: i64, stop: i64, step: i64) -> PyResult<Graph> {
        Graph::new(Dataset::range(start, stop, step))
    }

    #[staticmethod]
    fn counter(start: i64, step: i64) -> PyResult<Graph> {
        Graph::new(Dataset::counter(start, step))
    }

    #[staticmethod]
    fn random(seed: Option<u64>) -> PyResult<Graph> {
        Graph::new(Dataset::random(seed))
    }

    #[staticmethod]
    fn tensors(described: &Bound<'_, PyAny>, data: Vec<Bound<'_, PyAny>>) -> PyResult<Graph> {
        let data: PyResult<_> = data.iter().map(constant).collect();
        Graph::new(Dataset::tensors(spec::from_python(described)?, data?))
    }

    #[staticmethod]
    fn tensor_slices(described: &Bound<'_, PyAny>, data: Vec<Bound<'_, PyAny>>) -> PyResult<Graph> {
        let data: PyResult<_> = data.iter().map(constant).collect();
        Graph::new(Dataset::tensor_slices(spec::from_python(described)?, data?))
    }

    #[staticmethod]
    fn files(pattern: String) -> PyResult<Graph> {
        Graph::new(Dataset::files(pattern))
    }

    #[staticmethod]
    fn files_shuffled(pattern: String, seed: Option<u64>) -> PyResult<Graph> {
        Graph::new(Dataset::files_shuffled(pattern, seed))
    }

    #[staticmethod]
    fn load(path: &str, described: &Bound<'_, PyAny>) -> PyResult<Graph> {
        Graph::new(Dataset::load(path, spec::from_python(described)?))
    }

    #[staticmethod]
    fn zip(graphs: Vec<Graph>) -> PyResult<Graph> {
        joined(&graphs, Dataset::zip(graphs.iter().map(Dataset::from)))
    }

    #[staticmethod]
    fn zip_named(graphs: Vec<(String, Graph)>) -> PyResult<Graph> {
        let named = graphs.iter().map(|(name, graph)| (name.as_str(), graph.into()));
        let zipped = Dataset::zip_named(named);
        let graphs: Vec<Graph> = graphs.iter().map(|(_, graph)| graph.clone()).collect();
        joined(&graphs, zipped)
    }

    #[staticmethod]
    fn sample(graphs: Vec<(f64, Graph)>, seed: Option<u64>, stop_on_empty: bool) -> PyResult<Graph> {
        let weighted = graphs.iter().map(|(weight, graph)| (*weight, graph.into()));
        Graph::new(Dataset::sample(weighted, seed, stop_on_empty))
    }

    #[staticmethod]
    fn choose(choices: &Graph, graphs: Vec<Graph>, stop_on_empty: bool) -> PyResult<Graph> {
        let graphs = graphs.iter().map(Dataset::from);
        Graph::new(Dataset::choose(choices.into(), graphs, stop_on_empty))
    }

    fn concatenate(&self, other: &Graph) -> PyResult<Graph> {
        self.then(|dataset| dataset.concatenate(other.into()))
    }
}

/// Within a function, a dataset of several of which one is built on the argument is built on it too.
fn joined(graphs: &[Graph], dataset: Dataset) -> PyResult<Graph> {
    match graphs.iter().find(|graph| graph.is_built_within()) {
        Some(graph) => graph.made(dataset),
        None => Graph::new(dataset),
    }
}
