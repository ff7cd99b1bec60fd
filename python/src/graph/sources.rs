//! Sources of elements, and datasets with several inputs.

use millstream::pipeline::graph::Dataset;
use pyo3::prelude::*;

use super::Graph;
use crate::expr::constant;
use crate::spec;

#[pymethods]
impl Graph {
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
    fn load(path: &str, described: &Bound<'_, PyAny>) -> PyResult<Graph> {
        Graph::new(Dataset::load(path, spec::from_python(described)?))
    }

    #[staticmethod]
    fn choose(choices: &Graph, graphs: Vec<Graph>, stop_on_empty: bool) -> PyResult<Graph> {
        let dataset = Dataset::choose(choices.into(), graphs.iter().map(Dataset::from), stop_on_empty);
        let inputs: Vec<&Graph> = std::iter::once(choices).chain(&graphs).collect();
        Graph::joining(&inputs, dataset)
    }
}
