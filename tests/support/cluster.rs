//! A service in this process: a dispatcher, workers, and a trainer's connection. All parts end with the
//! cluster.

use std::sync::Arc;
use std::time::Duration;

use millstream::client::{MaxOutstanding, Reader, ReaderConfig};
use millstream::control::{DispatcherConfig, Policy};
use millstream::element::{Dtype, Element, ElementSpec, TensorSpec};
use millstream::link::{ClusterKey, EndpointConfig, KeySource, LoadedKey};
use millstream::pipeline::exec::{Functions, PreparedMap};
use millstream::pipeline::graph::Dataset;
use millstream::{Dispatcher, LocalWorkers, ReadRequest, Service, ServiceConfig, Worker, WorkerConfig};

use super::links::Mechanism;

/// The liveness timeout in these tests.
pub(crate) const LIVENESS: Duration = Duration::from_secs(1);

/// A service in this process. Dropping the cluster ends the trainer, the workers and the dispatcher, in this
/// order.
pub(crate) struct Cluster {
    pub(crate) key: LoadedKey,
    pub(crate) key_text: String,
    /// The address of the dispatcher.
    pub(crate) address: String,
    pub(crate) service: Option<Service>,
    pub(crate) workers: Vec<Worker>,
    dispatcher: Option<Dispatcher>,
}

impl Cluster {
    /// Starts a cluster with one worker for each of these function sets, read by this transport.
    pub(crate) fn start(mechanism: Mechanism, functions: Vec<Functions>) -> Self {
        Self::start_with(mechanism, functions, &EndpointConfig::default(), |_| {})
    }

    /// Starts a cluster with `endpoint` as the settings of every endpoint. `adjust` changes each worker's
    /// settings.
    pub(crate) fn start_with(
        mechanism: Mechanism,
        functions: Vec<Functions>,
        endpoint: &EndpointConfig,
        adjust: impl FnMut(&mut WorkerConfig),
    ) -> Self {
        Self::configured(mechanism, prompt(), functions, endpoint, adjust)
    }

    fn configured(
        mechanism: Mechanism,
        config: DispatcherConfig,
        functions: Vec<Functions>,
        endpoint: &EndpointConfig,
        mut adjust: impl FnMut(&mut WorkerConfig),
    ) -> Self {
        let (key, key_text) = fresh_key();
        let dispatcher =
            Dispatcher::start(&key, None, config, Arc::new(Functions::new())).expect("a dispatcher");
        let address = dispatcher.local_addr().to_string();
        let readers_local = LocalWorkers::default();
        let workers = functions.into_iter().map(|functions| {
            let local = match mechanism {
                Mechanism::Memory => readers_local.clone(),
                #[cfg(target_os = "linux")]
                Mechanism::Shm => LocalWorkers::default(),
                Mechanism::Quic => LocalWorkers::default(),
            };
            let functions = Arc::new(functions);
            let mut config = WorkerConfig {
                local,
                functions,
                threads: Some(2),
                ..WorkerConfig::new(&address)
            };
            config.endpoint = endpoint.clone();
            adjust(&mut config);
            Worker::start(&key, config).expect("a worker")
        });
        let workers = workers.collect();
        let config = ServiceConfig {
            local: readers_local,
            endpoint: endpoint.clone(),
            no_shared_memory: matches!(mechanism, Mechanism::Quic),
            ..ServiceConfig::default()
        };
        let service = Service::connect(&key, &address, config).expect("a trainer's side");
        Self {
            key,
            key_text,
            address,
            service: Some(service),
            workers,
            dispatcher: Some(dispatcher),
        }
    }

    /// Starts a cluster of `workers` workers without functions.
    pub(crate) fn plain(mechanism: Mechanism, workers: usize) -> Self {
        Self::plain_with(mechanism, prompt(), workers)
    }

    /// Starts a cluster without functions, whose dispatcher has these settings.
    pub(crate) fn plain_with(mechanism: Mechanism, config: DispatcherConfig, workers: usize) -> Self {
        let functions = vec![Functions::new(); workers];
        Self::configured(mechanism, config, functions, &EndpointConfig::default(), |_| {})
    }

    pub(crate) fn service(&self) -> &Service {
        self.service.as_ref().expect("there until the cluster is dropped")
    }

    /// Returns the number of workers that the dispatcher has declared dead.
    pub(crate) fn dead_workers(&self) -> usize {
        let status = self.service().status().expect("a status");
        let dead = status.workers.iter().filter(|worker| worker.dead.is_some());
        dead.count()
    }

    /// Reads a dataset from its beginning, in a private job.
    pub(crate) fn read(&self, dataset: Dataset, policy: Policy, max_outstanding: MaxOutstanding) -> Reader {
        let config = ReaderConfig {
            max_outstanding,
            ..ReaderConfig::default()
        };
        self.read_with(dataset, policy, &config)
    }

    /// Reads a dataset with these settings, in a private job.
    pub(crate) fn read_with(&self, dataset: Dataset, policy: Policy, config: &ReaderConfig) -> Reader {
        let dataset = self.service().register(dataset, None).expect("registered");
        let request = ReadRequest::new(dataset, policy);
        let job = self.service().job(&request).expect("a job");
        self.service().read(job, 0, config).expect("a reader")
    }

    /// Ends the dispatcher without a goodbye.
    pub(crate) fn end_dispatcher(&mut self) {
        self.dispatcher = None;
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.service = None;
        let mut troubles = Vec::new();
        for worker in self.workers.drain(..) {
            troubles.extend(worker.stop().err().map(|error| error.to_string()));
        }
        // The dispatcher is dropped without a stop, because its goodbye would wait until all connections have
        // timed out.
        self.dispatcher = None;
        assert!(
            troubles.is_empty() || std::thread::panicking(),
            "the service did not end well: {troubles:?}"
        );
    }
}

/// Creates a random key, and returns the key and its text.
pub(crate) fn fresh_key() -> (LoadedKey, String) {
    let text = ClusterKey::generate().expect("randomness").to_text();
    (KeySource::from_setting(&text).load().expect("a key"), text)
}

/// Returns the settings of a dispatcher with short timeouts.
pub(crate) fn prompt() -> DispatcherConfig {
    DispatcherConfig {
        heartbeat_interval: Duration::from_millis(200),
        liveness: LIVENESS,
        workers_lost_grace: LIVENESS,
        acknowledge_timeout: 5 * LIVENESS,
        sweep_interval: Duration::from_millis(50),
        ..DispatcherConfig::default()
    }
}

/// Returns functions with a map `work` that takes this time for an element.
pub(crate) fn working(time: Duration) -> Functions {
    Functions::new().with_map("work", move |_, input| {
        Ok(PreparedMap {
            output: input.clone(),
            call: Arc::new(move |value| {
                std::thread::sleep(time);
                Ok(value)
            }),
        })
    })
}

/// Returns the spec of the elements of `Dataset::range`.
pub(crate) fn number() -> ElementSpec {
    ElementSpec::single(TensorSpec::fixed(Dtype::I64, &[])).expect("a scalar")
}

/// Returns the numbers in an element of a range, batched or not.
pub(crate) fn numbers(element: &Element) -> Vec<i64> {
    element
        .component(0)
        .expect("one component")
        .as_slice::<i64>()
        .expect("numbers")
        .to_vec()
}

/// Reads all remaining numbers of a reader.
pub(crate) fn drain(reader: &mut Reader) -> Vec<i64> {
    let mut all = Vec::new();
    for element in reader {
        all.extend(numbers(&element.expect("the reader proceeds")));
    }
    all
}
