//! The port that shows the loaders of this process over HTTP. The package's module `_live` observes them.
//!
//! The port's threads take the interpreter's lock only to observe, and nobody waits for these threads with
//! the lock held.

use std::net::SocketAddr;

use millstream::admin::{AdminPort, LoaderFacts, ObserveLoaders, ObservedLoaders, TrainerSubject};
use millstream::pipeline::storage;
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::admin;
use crate::fork::Here;

/// An open port for HTTP that shows the loaders of this process.
#[derive(Debug)]
#[pyclass(frozen, module = "millstream._millstream")]
pub(crate) struct MetricsPort {
    running: Here<Mutex<Option<AdminPort>>>,
    address: SocketAddr,
}

/// A loader as the package describes it: see [`LoaderFacts`].
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
struct Described {
    name: String,
    elements: u64,
    bytes: Option<u64>,
    waited_s: f64,
    waiting: Option<f64>,
    epoch: Option<u64>,
    step: Option<u64>,
    steps: Option<u64>,
    prefetched: Option<u64>,
    reconnects: u64,
    lost_splits: u64,
    skipped_splits: u64,
    quarantined_elements: u64,
    verdict: String,
    advice: String,
}

impl From<Described> for LoaderFacts {
    fn from(loader: Described) -> LoaderFacts {
        LoaderFacts {
            name: loader.name,
            elements: loader.elements,
            bytes: loader.bytes,
            waited_s: loader.waited_s,
            waiting: loader.waiting,
            epoch: loader.epoch,
            step: loader.step,
            steps: loader.steps,
            ready: loader.prefetched,
            reconnects: loader.reconnects,
            lost_splits: loader.lost_splits,
            skipped_splits: loader.skipped_splits,
            quarantined_elements: loader.quarantined_elements,
            sentence: loader.verdict,
            advice: loader.advice,
        }
    }
}

/// Returns the function that calls `observe` for the loaders. The function fails while the interpreter ends.
fn observing(observe: Py<PyAny>) -> ObserveLoaders {
    Box::new(move || {
        let observed = Python::try_attach(|py| {
            let (loaders, left_out): (Vec<Described>, usize) = observe.bind(py).call0()?.extract()?;
            let loaders = loaders.into_iter().map(LoaderFacts::from).collect();
            PyResult::Ok(ObservedLoaders { loaders, left_out })
        });
        match observed {
            Some(loaders) => loaders.map_err(|error| format!("the loaders cannot be observed: {error}")),
            None => Err("the program ends".to_owned()),
        }
    })
}

/// Returns a text in which URLs show neither their users nor the queries that may be signatures.
#[pyfunction]
pub(crate) fn without_secrets(text: &str) -> String {
    storage::without_secrets(text).into_owned()
}

#[pymethods]
impl MetricsPort {
    /// Opens a port at `host:port`. Requests must present the token, if there is one.
    #[staticmethod]
    #[pyo3(signature = (*, host, port, token, hosts, observe))]
    fn open(
        py: Python<'_>,
        host: &str,
        port: u16,
        token: Option<String>,
        hosts: Vec<String>,
        observe: Py<PyAny>,
    ) -> PyResult<MetricsPort> {
        let ip = host.parse().map_err(|_| {
            PyValueError::new_err(format!(
                "invalid host {host:?}: expected the IP address to listen on, such as 127.0.0.1"
            ))
        })?;
        let subject = TrainerSubject::new(observing(observe));
        let bound = admin::bound(py, SocketAddr::new(ip, port), token, hosts)?;
        let opened = admin::serve(py, bound, subject)?;
        Ok(MetricsPort {
            address: opened.local_addr(),
            running: Here::new(Mutex::new(Some(opened))),
        })
    }

    /// Returns the number of the port.
    #[getter]
    fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the address of the port, as `host:port`.
    #[getter]
    fn address(&self) -> String {
        self.address.to_string()
    }

    /// Closes the port. Does nothing if the port is closed.
    fn close(&self, py: Python<'_>) {
        // A forked child has no port to close.
        let Ok(running) = self.running.get("port") else {
            return;
        };
        let port = running.lock().take();
        // An observation may wait for the interpreter's lock.
        py.detach(|| drop(port));
    }
}

impl Drop for MetricsPort {
    fn drop(&mut self) {
        Python::attach(|py| self.close(py));
    }
}
