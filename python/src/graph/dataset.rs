//! The dataset as a Python object: immutable, checked, and picklable as its definition. Does not know single
//! operations.

use std::sync::Arc;

use millstream::client::WaitClock;
use millstream::element::ElementSpec;
use millstream::pipeline::exec::{Caches, Functions};
use millstream::pipeline::graph::{
    Cache, Cardinality, Dataset, Graph as Definition, ServiceReader, ShardBy, Share, SourceFacts, Splitting,
    Units, node_specs,
};
use millstream::pipeline::plan::{POSITIONS_DIGEST_VERSION, positions_digest};
use millstream::{LocalElements, LocalRun, python};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::assembly::Output;
use crate::elements::{Elements, Supply};
use crate::held::{self, Held};
use crate::probe::Probe;
use crate::{failure, key, spec};

/// A dataset under construction. Every operation returns a new object.
#[derive(Debug, Clone)]
#[pyclass(frozen, from_py_object, module = "millstream._millstream")]
pub(crate) struct Graph {
    dataset: Dataset,
    /// The spec of the function's argument, for a dataset that is built within a function.
    argument: Option<Arc<ElementSpec>>,
    spec: Arc<ElementSpec>,
    /// The number of elements; unknown within a function.
    cardinality: Cardinality,
    /// The contents of memory caches, shared by all datasets derived from this one. `None` if the dataset has
    /// no memory cache.
    caches: Option<Caches>,
    /// The code of this process that the dataset runs.
    held: Held,
}

impl Graph {
    /// Checks a whole dataset.
    ///
    /// # Errors
    /// `InvalidArgumentError` names the operation and its fault.
    pub(crate) fn new(dataset: Dataset) -> PyResult<Graph> {
        let graph = dataset.clone().graph().map_err(failure::dataset)?;
        // The analysis may look up files on a server, which may run in this process.
        let facts = Python::attach(|py| py.detach(|| graph.facts(&Functions::new())));
        let facts = facts.map_err(failure::analysis)?;
        Ok(Graph {
            dataset,
            argument: None,
            spec: Arc::new(facts.spec),
            cardinality: facts.cardinality,
            caches: caches_in_memory(&graph).then(Caches::default),
            held: Held::of(&graph)?,
        })
    }

    /// Checks a dataset that is built within a function whose argument has the spec `argument`.
    pub(super) fn within(dataset: Dataset, argument: Arc<ElementSpec>) -> PyResult<Graph> {
        let graph = dataset.clone().function_graph().map_err(failure::dataset)?;
        let specs = node_specs(&graph, &Functions::new(), Some(&argument)).map_err(failure::analysis)?;
        let spec = specs.into_iter().nth(graph.output());
        Ok(Graph {
            dataset,
            spec: spec.map_or_else(|| argument.clone(), Arc::new),
            argument: Some(argument),
            cardinality: Cardinality::Unknown,
            caches: None,
            held: Held::of(&graph)?,
        })
    }

    /// Returns this dataset with one more operation.
    pub(super) fn step(&self, step: impl FnOnce(Dataset) -> Dataset) -> PyResult<Graph> {
        self.made(step(self.dataset.clone()))
    }

    /// Returns a dataset that is derived from this one.
    pub(super) fn made(&self, dataset: Dataset) -> PyResult<Graph> {
        match &self.argument {
            Some(argument) => Graph::within(dataset, argument.clone()),
            None => {
                let made = Graph::new(dataset)?;
                let caches = self.caches.clone().or(made.caches);
                Ok(Graph { caches, ..made })
            }
        }
    }

    /// Returns a dataset of several inputs. Within a function, the dataset is built on the function's
    /// argument if one of its inputs is.
    ///
    /// # Errors
    /// `UnimplementedError` if the inputs are built on the arguments of two functions.
    pub(super) fn joining(inputs: &[&Graph], dataset: Dataset) -> PyResult<Graph> {
        let mut within = inputs.iter().filter(|input| input.argument.is_some());
        let first = within.next();
        if let Some(Graph {
            argument: Some(argument),
            ..
        }) = first
        {
            within.try_for_each(|input| input.check_argument(argument))?;
        }
        match first.or(inputs.first()) {
            Some(graph) => graph.made(dataset),
            None => Graph::new(dataset),
        }
    }

    /// Checks that the dataset is not built on the argument of another function than the one of `argument`.
    ///
    /// # Errors
    /// `UnimplementedError` says what to do instead.
    pub(super) fn check_argument(&self, argument: &Arc<ElementSpec>) -> PyResult<()> {
        match &self.argument {
            Some(own) if !Arc::ptr_eq(own, argument) => Err(failure::raise(
                "UnimplementedError",
                "a function uses a dataset of another function's element: zip the datasets, and take both elements as arguments of the \
                 function",
            )),
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn dataset(&self) -> Dataset {
        self.dataset.clone()
    }

    pub(super) fn element_spec(&self) -> &Arc<ElementSpec> {
        &self.spec
    }

    fn definition(&self) -> PyResult<Definition> {
        self.dataset.clone().graph().map_err(failure::dataset)
    }

    /// Returns the division of a dataset with one source into splits; `None` if its positions are not
    /// counted.
    fn units(&self) -> PyResult<Option<Units>> {
        let facts = self.definition()?.facts(&Functions::new());
        Ok(match facts.map_err(failure::analysis)?.sources.as_slice() {
            [
                SourceFacts {
                    splitting: Splitting::Counted(units),
                    ..
                },
            ] => Some(*units),
            _ => None,
        })
    }

    /// Returns the definition for other processes, which run copies of this process's code.
    ///
    /// # Errors
    /// `InvalidArgumentError` if the code cannot be copied.
    pub(crate) fn sent(&self) -> PyResult<Definition> {
        held::sent(self.definition()?)
    }
}

/// Returns whether a dataset caches elements in memory, outside of functions.
fn caches_in_memory(graph: &Definition) -> bool {
    let mut nodes = graph.nodes().iter();
    nodes.any(|node| node.op.of().is_some_and(|cache: &Cache| cache.path.is_none()))
}

impl From<&Graph> for Dataset {
    fn from(graph: &Graph) -> Dataset {
        graph.dataset.clone()
    }
}

#[pymethods]
impl Graph {
    /// Returns the spec of the elements, as plain tuples.
    #[getter]
    fn spec<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        spec::to_python(py, &self.spec)
    }

    /// Returns the number of elements: -1 for an infinite dataset, -2 for an unknown number.
    #[getter]
    fn cardinality(&self) -> i64 {
        match self.cardinality {
            Cardinality::Infinite => -1,
            Cardinality::Unknown => -2,
            Cardinality::Finite(count) => i64::try_from(count).unwrap_or(i64::MAX),
        }
    }

    /// Returns the number of splits of a dataset with one source whose positions are counted. Returns `None`
    /// for files, which are listed when a pass begins.
    #[getter]
    fn splits(&self) -> PyResult<Option<u64>> {
        Ok(self.units()?.map(|units| units.splits()))
    }

    /// Returns the number of rows in every batch but the last. Returns `None` unless the last operation that
    /// changes rows sets a batch size.
    #[getter]
    fn batch_size(&self) -> PyResult<Option<u64>> {
        let graph = self.definition()?;
        let mut index = graph.output();
        while let Some(node) = graph.nodes().get(index) {
            let op = &node.op;
            match node.inputs.first() {
                Some(input) if op.yields_its_input() => index = *input as usize,
                _ => return Ok(op.batch_size()),
            }
        }
        Ok(None)
    }

    /// Returns whether the dataset reads the elements of a service.
    #[getter]
    fn is_served(&self) -> PyResult<bool> {
        let graph = self.definition()?;
        Ok(graph.nodes().iter().any(|node| node.op.is::<ServiceReader>()))
    }

    /// Returns the share of reader `index` among `count` readers. The dataset is divided by `files`,
    /// `elements` or `files_or_elements`, at the place of a `hint`, or by the `splits` of its source. Shares
    /// by splits may be empty, and require a dataset that is alike on splits.
    fn sharded(&self, by: &str, count: u64, index: u64) -> PyResult<Graph> {
        let by = match by {
            "files" => ShardBy::Files,
            "elements" => ShardBy::Elements,
            "files_or_elements" => ShardBy::FilesOrElements,
            "hint" => ShardBy::Hint,
            "splits" => ShardBy::Splits(self.units()?.map_or(1, |units| units.unit())),
            other => {
                return Err(PyValueError::new_err(format!(
                    "invalid sharding {other:?}: expected files, elements, files_or_elements, hint or splits"
                )));
            }
        };
        // All readers use the same seed, because different random draws would make their shares overlap.
        let share = Share {
            count,
            index,
            seed: 0,
        };
        let shared = self.definition()?.sharded(by, share);
        let shared = shared.map_err(|error| failure::raise("InvalidArgumentError", error))?;
        Graph::new(Dataset::from(shared))
    }

    /// Returns whether the dataset is built within a function.
    #[getter]
    fn is_within(&self) -> bool {
        self.argument.is_some()
    }

    /// Returns whether the dataset reads a service.
    #[getter]
    fn reads_service(&self) -> PyResult<bool> {
        let definition = self.definition()?;
        Ok(definition.nodes().iter().any(|node| node.op.name() == "service"))
    }

    /// Returns the definition. Equal chains of operations have equal definitions.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.sent()?.to_bytes().map_err(failure::dataset)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Returns the definition without the code of Python functions, which differs between processes.
    fn to_bytes_without_code<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let definition = self.definition()?.without_params(python::NAME);
        let bytes = definition.to_bytes().map_err(failure::dataset)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Returns a text that differs between datasets whose elements have other positions, after the version of
    /// the comparison.
    fn positions_digest(&self) -> PyResult<String> {
        let digest = positions_digest(&self.definition()?, python::NAME).map_err(failure::dataset)?;
        Ok(format!("{POSITIONS_DIGEST_VERSION}-{digest:016x}"))
    }

    /// Returns the dataset of a definition.
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<Graph> {
        let definition = Definition::from_bytes(bytes).map_err(failure::dataset)?;
        Graph::new(Dataset::from(definition))
    }

    /// Returns a drawing of the dataset as text.
    fn explain(&self) -> PyResult<String> {
        Ok(self.definition()?.drawing().to_string())
    }

    /// Runs one pass over the dataset in this process. `take` is the function that converts DLPack capsules
    /// to leaves. With `on_demand`, each element is computed only while the caller waits for it.
    #[pyo3(signature = (epoch, threads, task_id, take=None, on_demand=false))]
    fn run(
        &self,
        py: Python<'_>,
        epoch: u64,
        threads: usize,
        task_id: u64,
        take: Option<Py<PyAny>>,
        on_demand: bool,
    ) -> PyResult<Elements> {
        let probe = Arc::<Probe>::default();
        let user_waits = Some(Arc::<WaitClock>::default());
        let functions = key::functions(Some(Arc::clone(&probe)), user_waits.clone())?;
        let (graph, functions) = self.held.within(self.definition()?, functions)?;
        let run = LocalRun {
            graph,
            functions,
            threads,
            epoch,
            task_id,
            on_demand,
            caches: self.caches.clone(),
            user_waits,
        };
        let elements = LocalElements::start(run).map_err(|error| failure::execution(&error))?;
        let output = Output::new(py, take)?;
        Ok(Elements::new(Supply::Local(elements), output, true, probe))
    }
}
