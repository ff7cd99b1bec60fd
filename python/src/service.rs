//! A trainer's connection to a service. The connection registers datasets, creates jobs and opens readers.

use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream::client::{MaxOutstanding, OnLost, OnStarted, ReaderConfig};
use millstream::control::{Abandoned, Cardinality, DatasetId, JobId, Policy, Status, TargetWorkers};
use millstream::dataplane::transport::Compression;
use millstream::exactly_once::ExactTerms;
use millstream::{GiveUp, ReadRequest, ServiceConfig, ServiceError, service_reader};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::assembly::Output;
use crate::elements::{Elements, Supply};
use crate::exactly_once::ExactArguments;
use crate::failure::{self, raise};
use crate::fork::Here;
use crate::graph::Graph;
use crate::probe::Probe;
use crate::wait::interruptible;
use crate::{key, notices, spec, traces};

/// A connection to a service. The readers of a connection may outlive the connection.
#[derive(Debug)]
#[pyclass(frozen, module = "millstream._millstream")]
pub(crate) struct Service {
    /// The connection; `None` after a close.
    service: Here<Mutex<Option<Arc<millstream::Service>>>>,
    give_up: Here<GiveUp>,
    dispatcher: String,
}

/// The arguments of a job: see [`ReadRequest`].
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
struct Request {
    dataset_id: String,
    policy: String,
    job_name: Option<String>,
    target_workers: String,
    num_consumers: Option<u32>,
    cross_trainer_cache: bool,
    /// `true` if a pass that all readers have left ends after the lifetime of jobs.
    expires: bool,
    /// `true` if the reader takes elements in the order of their splits.
    in_order: bool,
    exactly_once: Option<ExactArguments>,
}

/// The arguments of a reader: see [`ReaderConfig`].
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
struct Reading {
    max_outstanding: Option<u64>,
    max_outstanding_bytes: Option<u64>,
    consumer: Option<u32>,
    trainer_id: Option<String>,
    /// `true` if every split contains at most one element.
    whole_splits: bool,
    on_lost: String,
}

impl Request {
    fn parsed(self) -> PyResult<ReadRequest> {
        let invalid = |error: &dyn std::fmt::Display| raise("InvalidArgumentError", error);
        Ok(ReadRequest {
            dataset: DatasetId::new(&self.dataset_id).map_err(|error| invalid(&error))?,
            policy: Policy::from_str(&self.policy).map_err(|error| invalid(&error))?,
            job_name: self.job_name,
            target_workers: TargetWorkers::from_str(&self.target_workers).map_err(|error| invalid(&error))?,
            num_consumers: self.num_consumers,
            cross_trainer_cache: self.cross_trainer_cache,
            abandoned: self.expires.then_some(Abandoned::Expires),
            in_order: self.in_order,
            exactly_once: self.exactly_once.map(ExactTerms::from),
        })
    }
}

impl Reading {
    /// Returns the settings of a reader, which `probe` sees.
    fn config(self, probe: &Arc<Probe>) -> PyResult<ReaderConfig> {
        let defaults = ReaderConfig::default();
        let seeing = Arc::clone(probe);
        let on_started: OnStarted = Arc::new(move |watch| seeing.note_reader(watch));
        let on_lost =
            OnLost::from_str(&self.on_lost).map_err(|error| raise("InvalidArgumentError", error))?;
        Ok(ReaderConfig {
            max_outstanding: self
                .max_outstanding
                .map_or(MaxOutstanding::Auto, MaxOutstanding::Elements),
            max_outstanding_bytes: self
                .max_outstanding_bytes
                .unwrap_or(defaults.max_outstanding_bytes),
            consumer: self.consumer,
            trainer_id: self.trainer_id,
            whole_splits: self.whole_splits,
            on_lost,
            on_notice: Some(notices::of_readers(Some(Arc::clone(probe)))),
            on_started: Some(on_started),
            tracer: traces::tracer()?,
            ..defaults
        })
    }
}

impl Service {
    /// Runs a request to the service that may take long. A signal cancels it.
    fn ask<T: Send>(
        &self,
        py: Python<'_>,
        question: impl FnOnce(&millstream::Service) -> Result<T, ServiceError> + Send,
    ) -> PyResult<T> {
        let service = self.connected()?;
        let give_up = self.give_up.get("connection")?;
        let answer = interruptible(py, || give_up.give_up(), || question(&service));
        if answer.is_err() {
            // A cancelled connection answers no further request, so it is dropped.
            self.taken();
        }
        answer?.map_err(failure::service)
    }

    fn taken(&self) -> Option<Arc<millstream::Service>> {
        let service = self.service.get("connection").ok()?;
        service.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn connected(&self) -> PyResult<Arc<millstream::Service>> {
        let service = self
            .service
            .get("connection")?
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        service
            .clone()
            .ok_or_else(|| raise("FailedPreconditionError", "the connection was closed"))
    }
}

#[pymethods]
impl Service {
    /// Connects to the dispatcher at `host:port`, and waits for a dispatcher that has not started yet.
    #[staticmethod]
    fn connect(
        py: Python<'_>,
        dispatcher: String,
        shares_memory: bool,
        timeout_s: Option<f64>,
        dispatcher_timeout_s: Option<f64>,
    ) -> PyResult<Service> {
        let key = key::load()?;
        let give_up = GiveUp::default();
        let mut config = ServiceConfig {
            local: key::local_workers(),
            no_shared_memory: !shares_memory,
            give_up: give_up.clone(),
            session: notices::session(dispatcher_timeout_s)?,
            ..ServiceConfig::default()
        };
        if let Some(timeout_s) = timeout_s {
            config.session.connect_deadline = Duration::try_from_secs_f64(timeout_s)
                .map_err(|error| raise("InvalidArgumentError", error))?;
        }
        let connecting = || millstream::Service::connect(&key, &dispatcher, config);
        let service = interruptible(py, || give_up.give_up(), connecting)?.map_err(failure::service)?;
        Ok(Service {
            service: Here::new(Mutex::new(Some(Arc::new(service)))),
            give_up: Here::new(give_up),
            dispatcher,
        })
    }

    /// Returns the dispatcher's address, as the caller wrote it.
    #[getter]
    fn dispatcher(&self) -> &str {
        &self.dispatcher
    }

    /// Returns whether this process made the connection and has not closed it.
    fn is_usable(&self) -> bool {
        self.service.is_here() && self.connected().is_ok()
    }

    /// Returns whether every later request on this connection fails.
    fn has_failed(&self) -> PyResult<bool> {
        Ok(self.connected()?.has_failed())
    }

    /// Registers a dataset, under the given id or under an id that the dispatcher chooses. Returns the id.
    fn register(&self, py: Python<'_>, graph: &Graph, dataset_id: Option<&str>) -> PyResult<String> {
        let id = dataset_id
            .map(DatasetId::new)
            .transpose()
            .map_err(|error| raise("InvalidArgumentError", error))?;
        let dataset = graph.sent()?.into();
        let id = self.ask(py, |service| service.register(dataset, id))?;
        Ok(id.to_string())
    }

    /// Returns the metadata of a dataset: its spec as plain tuples, its cardinality (-1 infinite, -2
    /// unknown), and its compression.
    fn dataset<'py>(&self, py: Python<'py>, dataset_id: &str) -> PyResult<Bound<'py, PyDict>> {
        let id = DatasetId::new(dataset_id).map_err(|error| raise("InvalidArgumentError", error))?;
        let metadata = self.ask(py, |service| service.dataset(&id))?;
        let known = PyDict::new(py);
        known.set_item("spec", spec::to_python(py, &metadata.spec)?)?;
        known.set_item(
            "cardinality",
            match metadata.cardinality {
                Cardinality::Infinite => -1,
                Cardinality::Unknown => -2,
                Cardinality::Finite(count) => i64::try_from(count).unwrap_or(i64::MAX),
            },
        )?;
        known.set_item(
            "compression",
            metadata.compression.map(|travel| match travel {
                Compression::None => "none",
                Compression::Lz4 => "lz4",
                Compression::Auto => "auto",
            }),
        )?;
        Ok(known)
    }

    /// Returns the dataset of the elements that a job yields. Operations added to this dataset run in the
    /// current process.
    fn distributed(&self, py: Python<'_>, request: Request, reading: Reading) -> PyResult<Graph> {
        let (request, config) = (request.parsed()?, reading.config(&Arc::default())?);
        let dataset = self.ask(py, |service| service_reader::dataset(service, &request, &config))?;
        Graph::new(dataset)
    }

    /// Returns the number of the job for a request.
    fn job(&self, py: Python<'_>, request: Request) -> PyResult<u64> {
        let request = request.parsed()?;
        Ok(self.ask(py, |service| service.job(&request))?.0)
    }

    /// Reads one pass of a job, numbered from 0. `take` is the function that converts DLPack capsules to
    /// leaves.
    #[pyo3(signature = (job, repetition, reading, take=None))]
    fn read(
        &self,
        py: Python<'_>,
        job: u64,
        repetition: u64,
        reading: Reading,
        take: Option<Py<PyAny>>,
    ) -> PyResult<Elements> {
        let probe = Arc::default();
        let config = reading.config(&probe)?;
        // Elements that workers in this process keep for several trainers are shared by these trainers.
        let exclusive = config.trainer_id.is_none() || key::local_workers().is_empty();
        let reader = self.ask(py, |service| service.read(JobId(job), repetition, &config))?;
        let output = Output::new(py, take)?;
        Ok(Elements::new(
            Supply::Service(Box::new(reader)),
            output,
            exclusive,
            probe,
        ))
    }

    /// Returns the living workers, as dicts of address, tags and tasks.
    fn workers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        described(py, &self.ask(py, millstream::Service::status)?)
    }

    /// Returns the living workers, as `workers` does, and the number of workers that the dispatcher wants,
    /// which is `None` if it has not decided yet. Both come from one answer of the dispatcher.
    fn workers_and_wanted<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyList>, Option<u64>)> {
        let status = self.ask(py, millstream::Service::status)?;
        Ok((described(py, &status)?, status.workers_wanted))
    }

    /// Ends the service: its workers and its dispatcher stop.
    fn shutdown(&self, py: Python<'_>) -> PyResult<()> {
        self.ask(py, millstream::Service::shutdown)
    }

    /// Says goodbye. Waits at most one second for readers that are still open.
    fn close(&self, py: Python<'_>) {
        if let Some(service) = self.taken().and_then(Arc::into_inner) {
            py.detach(|| service.close());
        }
    }
}

/// Describes the living workers of a service, as dicts of address, tags and tasks.
fn described<'py>(py: Python<'py>, status: &Status) -> PyResult<Bound<'py, PyList>> {
    let alive = status.workers.iter().filter(|worker| worker.dead.is_none());
    let described: PyResult<Vec<_>> = alive
        .map(|worker| {
            let known = PyDict::new(py);
            known.set_item("address", &worker.address)?;
            known.set_item("tags", &worker.tags)?;
            known.set_item("tasks", worker.tasks)?;
            Ok(known)
        })
        .collect();
    PyList::new(py, described?)
}
