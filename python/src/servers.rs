//! A dispatcher and workers in this process. The servers' data is unknown to this module.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream::admin::{AdminPort, DispatcherSubject, WorkerSubject};
use millstream::control::{DeploymentMode, DispatcherConfig, EtcdConfig, WorkerAddresses};
use millstream::dataplane::transport::Compression;
use millstream::link::HostPort;
use millstream::{SharedStore, WorkerConfig, WorkerStopper};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::fork::Here;
use crate::wait::{LOOK_EVERY, interruptible};
use crate::{admin, failure, key, notices, traces};

/// The minimum number of heartbeat intervals within the liveness timeout.
const HEARTBEATS: u32 = 5;

/// A running dispatcher.
#[derive(Debug)]
#[pyclass(frozen, module = "millstream._millstream")]
pub(crate) struct Dispatcher {
    running: Here<Mutex<Option<millstream::Dispatcher>>>,
    admin: Here<Mutex<Option<AdminPort>>>,
    admin_address: Option<SocketAddr>,
    address: SocketAddr,
}

/// A running worker.
#[derive(Debug)]
#[pyclass(frozen, module = "millstream._millstream")]
pub(crate) struct Worker {
    running: Here<Mutex<Option<millstream::Worker>>>,
    stopper: Here<WorkerStopper>,
    admin: Here<Mutex<Option<AdminPort>>>,
    admin_address: Option<SocketAddr>,
    address: String,
}

fn take<T>(running: &Here<Mutex<Option<T>>>) -> Option<T> {
    // A forked child has no server to end.
    let running = running.get("server").ok()?;
    running.lock().unwrap_or_else(PoisonError::into_inner).take()
}

fn look<T>(running: &Here<Mutex<Option<T>>>, has_ended: impl Fn(&T) -> bool) -> PyResult<bool> {
    let running = running
        .get("server")?
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    Ok(running.as_ref().is_none_or(has_ended))
}

/// Waits until `has_ended` returns `true`, in steps that check for signals.
fn wait_until(py: Python<'_>, has_ended: impl Fn() -> PyResult<bool>) -> PyResult<()> {
    while !has_ended()? {
        py.detach(|| std::thread::sleep(LOOK_EVERY));
        py.check_signals()?;
        notices::say(py)?;
    }
    Ok(())
}

fn bind(host: &str, port: u16) -> PyResult<SocketAddr> {
    let host: IpAddr = host.parse().map_err(|_| {
        PyValueError::new_err(format!(
            "invalid host {host:?}: expected the IP address to listen on"
        ))
    })?;
    Ok(SocketAddr::new(host, port))
}

/// Returns the placement of trainers and workers that the caller named, or the default.
fn mode(named: Option<&str>, default: DeploymentMode) -> PyResult<DeploymentMode> {
    let Some(named) = named else { return Ok(default) };
    let mode: Result<DeploymentMode, _> = named.parse();
    mode.map_err(|error| failure::raise("InvalidArgumentError", error))
}

/// Returns the store that several dispatchers share, if the caller named one.
fn shared_store(store: Option<&str>, advertise: Option<&str>) -> PyResult<Option<SharedStore>> {
    let invalid = |error: &dyn std::fmt::Display| failure::raise("InvalidArgumentError", error);
    let Some(store) = store else { return Ok(None) };
    let advertise: Option<Result<HostPort, _>> = advertise.map(str::parse);
    Ok(Some(SharedStore {
        etcd: store.parse::<EtcdConfig>().map_err(|error| invalid(&error))?,
        advertise: advertise.transpose().map_err(|error| invalid(&error))?,
    }))
}

/// Returns a lifetime: the default for `None`, and no limit for a negative number.
fn lifetime(ms: Option<i64>, default: Option<Duration>) -> Option<Duration> {
    match ms {
        None => default,
        Some(ms) => u64::try_from(ms).ok().map(Duration::from_millis),
    }
}

#[pymethods]
impl Dispatcher {
    /// Binds and serves. Returns the running dispatcher.
    #[staticmethod]
    #[pyo3(signature = (*, host, port, work_dir=None, worker_addresses=Vec::new(), job_gc_check_interval_ms=None,
        job_gc_timeout_ms=None, worker_timeout_ms=None, client_timeout_ms=None, gc_dynamic_sharding_jobs=false,
        liveness_ms=None, deployment_mode=None, store=None, advertise=None, admin=None, admin_token=None))]
    #[expect(clippy::too_many_arguments, reason = "each argument is a named setting")]
    fn start(
        py: Python<'_>,
        host: &str,
        port: u16,
        work_dir: Option<std::path::PathBuf>,
        worker_addresses: Vec<String>,
        job_gc_check_interval_ms: Option<u64>,
        job_gc_timeout_ms: Option<i64>,
        worker_timeout_ms: Option<u64>,
        client_timeout_ms: Option<u64>,
        gc_dynamic_sharding_jobs: bool,
        liveness_ms: Option<u64>,
        deployment_mode: Option<&str>,
        store: Option<&str>,
        advertise: Option<&str>,
        admin: Option<&str>,
        admin_token: Option<String>,
    ) -> PyResult<Dispatcher> {
        let defaults = DispatcherConfig::default();
        let time = |ms: Option<u64>, default| ms.map_or(default, Duration::from_millis);
        let liveness = time(liveness_ms, defaults.liveness);
        let config = DispatcherConfig {
            work_dir,
            worker_addresses: WorkerAddresses::new(worker_addresses)
                .map_err(|error| failure::raise("InvalidArgumentError", error))?,
            job_gc_check_interval: time(job_gc_check_interval_ms, defaults.job_gc_check_interval),
            job_gc_timeout: lifetime(job_gc_timeout_ms, defaults.job_gc_timeout),
            worker_timeout: time(worker_timeout_ms, defaults.worker_timeout),
            client_timeout: time(client_timeout_ms, defaults.client_timeout),
            gc_dynamic_sharding_jobs,
            liveness,
            heartbeat_interval: defaults.heartbeat_interval.min(liveness / HEARTBEATS),
            deployment_mode: mode(deployment_mode, defaults.deployment_mode)?,
            tracer: traces::tracer()?,
            ..defaults
        };
        let (key, functions, address) = (key::load()?, key::functions_of_server(None)?, bind(host, port)?);
        let shared = shared_store(store, advertise)?;
        let admin = admin::of_server(py, admin, admin_token)?;
        let started = py.detach(|| match shared {
            Some(shared) => {
                millstream::Dispatcher::start_candidate(&key, Some(address), config, functions, shared)
            }
            None => millstream::Dispatcher::start(&key, Some(address), config, functions),
        });
        let dispatcher = started.map_err(failure::dispatcher)?;
        let subject = || DispatcherSubject::new(dispatcher.observer());
        let admin = admin.map(|port| admin::serve(py, port, subject())).transpose()?;
        Ok(Dispatcher {
            admin_address: admin.as_ref().map(AdminPort::local_addr),
            admin: Here::new(Mutex::new(admin)),
            address: dispatcher.local_addr(),
            running: Here::new(Mutex::new(Some(dispatcher))),
        })
    }

    /// Returns the address that the server listens on, as `host:port`.
    #[getter]
    fn address(&self) -> String {
        self.address.to_string()
    }

    /// Returns the address of the admin port, as `host:port`; `None` without one.
    #[getter]
    fn admin_address(&self) -> Option<String> {
        self.admin_address.map(|address| address.to_string())
    }

    /// Returns whether the dispatcher has ended.
    fn has_ended(&self) -> PyResult<bool> {
        look(&self.running, millstream::Dispatcher::has_ended)
    }

    /// Waits until the dispatcher has ended.
    fn join(&self, py: Python<'_>) -> PyResult<()> {
        wait_until(py, || self.has_ended())?;
        self.stop(py)
    }

    /// Says goodbye and ends the dispatcher. Has no effect on a dispatcher that has ended.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| drop(take(&self.admin)));
        match take(&self.running) {
            Some(dispatcher) => py.detach(|| dispatcher.stop()).map_err(failure::dispatcher),
            None => Ok(()),
        }
    }
}

#[pymethods]
impl Worker {
    /// Binds, registers and serves. Waits until the dispatcher has accepted the worker.
    #[staticmethod]
    #[pyo3(signature = (*, dispatcher, host, port, advertise=None, tags=Vec::new(), threads=None, memory_bytes=None,
        cross_trainer_cache_bytes=None, shm_bytes=None, compression=None, connect_timeout_ms=None,
        dispatcher_timeout_ms=None, python=None, admin=None, admin_token=None))]
    #[expect(clippy::too_many_arguments, reason = "each argument is a named setting")]
    fn start(
        py: Python<'_>,
        dispatcher: String,
        host: &str,
        port: u16,
        advertise: Option<String>,
        tags: Vec<String>,
        threads: Option<usize>,
        memory_bytes: Option<usize>,
        cross_trainer_cache_bytes: Option<u64>,
        shm_bytes: Option<usize>,
        compression: Option<&str>,
        connect_timeout_ms: Option<u64>,
        dispatcher_timeout_ms: Option<u64>,
        python: Option<&str>,
        admin: Option<&str>,
        admin_token: Option<String>,
    ) -> PyResult<Worker> {
        let key = key::load()?;
        let mut config = WorkerConfig::new(dispatcher);
        (config.bind, config.advertise) = (Some(bind(host, port)?), advertise);
        (config.tags, config.threads) = (tags, threads);
        config.functions = key::functions_of_server(python)?;
        config.local = key::local_workers();
        config.tracer = traces::tracer()?;
        config.pool_bytes = memory_bytes.unwrap_or(config.pool_bytes);
        (config.cross_trainer_cache_bytes, config.shm_bytes) = (cross_trainer_cache_bytes, shm_bytes);
        if let Some(compression) = compression {
            let parsed: Result<Compression, _> = compression.parse();
            config.server.compression = parsed.map_err(|_| {
                PyValueError::new_err(format!(
                    "invalid compression {compression:?}: expected none, lz4 or auto"
                ))
            })?;
        }
        config.session.on_waiting = Some(Arc::new(notices::log));
        if let Some(timeout_ms) = connect_timeout_ms {
            config.session.connect_deadline = Duration::from_millis(timeout_ms);
        }
        if let Some(timeout_ms) = dispatcher_timeout_ms {
            config.session.give_up = Duration::from_millis(timeout_ms);
        }
        let admin = admin::of_server(py, admin, admin_token)?;
        let stopper = WorkerStopper::new();
        let give_up = stopper.clone();
        let started = interruptible(
            py,
            || give_up.stop(),
            || millstream::Worker::start_stoppable(&key, config, stopper),
        )?;
        let worker = started.map_err(failure::worker)?;
        let subject = || WorkerSubject::new(worker.observer());
        let admin = admin.map(|port| admin::serve(py, port, subject())).transpose()?;
        Ok(Worker {
            admin_address: admin.as_ref().map(AdminPort::local_addr),
            admin: Here::new(Mutex::new(admin)),
            address: worker.address().to_owned(),
            stopper: Here::new(worker.stopper()),
            running: Here::new(Mutex::new(Some(worker))),
        })
    }

    /// Returns the address that readers receive.
    #[getter]
    fn address(&self) -> &str {
        &self.address
    }

    /// Returns the address of the admin port, as `host:port`; `None` without one.
    #[getter]
    fn admin_address(&self) -> Option<String> {
        self.admin_address.map(|address| address.to_string())
    }

    /// Returns whether the worker has ended.
    fn has_ended(&self) -> PyResult<bool> {
        look(&self.running, millstream::Worker::has_ended)
    }

    /// Waits until the worker has ended.
    fn join(&self, py: Python<'_>) -> PyResult<()> {
        wait_until(py, || self.has_ended())?;
        self.stop(py)
    }

    /// Requests a graceful shutdown: the worker delivers the elements that it has begun, and ends. Returns at
    /// once.
    fn drain(&self) -> PyResult<()> {
        self.stopper.get("server")?.drain();
        Ok(())
    }

    /// Says goodbye and ends the worker. Has no effect on a worker that has ended.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| drop(take(&self.admin)));
        match take(&self.running) {
            Some(worker) => py.detach(|| worker.stop()).map_err(failure::worker),
            None => Ok(()),
        }
    }
}
