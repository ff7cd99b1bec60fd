//! Tests of the replacement of a cluster key while a trainer reads.

use std::sync::Arc;
use std::time::Duration;

use millstream::client::ReaderConfig;
use millstream::control::{DispatcherConfig, Policy};
use millstream::link::{ClusterKey, KeySource, LoadedKey, PublicKeys};
use millstream::pipeline::exec::Functions;
use millstream::pipeline::graph::Dataset;
use millstream::{Dispatcher, LocalWorkers, ReadRequest, Service, ServiceConfig, Worker, WorkerConfig};

use crate::support::cluster::{numbers, prompt};
use crate::support::mortal::lasting_address;
use crate::support::watched;

/// The number of elements that the trainer reads during the replacement.
const ELEMENTS: i64 = 6000;

/// The number of elements between two pauses of the trainer. The pauses make the trainer read until the last
/// worker was replaced.
const EVERY: usize = 100;
const PAUSE: Duration = Duration::from_millis(50);

/// A service whose processes are replaced by processes with other keys.
struct Rotation {
    address: String,
    config: DispatcherConfig,
    dispatcher: Option<Dispatcher>,
    workers: Vec<Worker>,
}

impl Rotation {
    /// Replaces the dispatcher, which keeps its records, and then the workers, which shut down gracefully.
    fn use_keys(&mut self, keys: &LoadedKey) {
        if let Some(dispatcher) = self.dispatcher.take() {
            dispatcher.stop().expect("a graceful end");
        }
        let bind = Some(self.address.parse().expect("an address"));
        let dispatcher = Dispatcher::start(keys, bind, self.config.clone(), Arc::new(Functions::new()));
        self.dispatcher = Some(dispatcher.expect("a dispatcher"));
        let started = (0..2).map(|_| {
            let config = WorkerConfig {
                threads: Some(1),
                local: LocalWorkers::default(),
                ..WorkerConfig::new(&self.address)
            };
            Worker::start(keys, config).expect("a worker")
        });
        let started = started.collect();
        for worker in std::mem::replace(&mut self.workers, started) {
            worker.drain().expect("it leaves in good order");
        }
    }

    fn connect(&self, keys: &LoadedKey) -> Result<Service, String> {
        let config = ServiceConfig {
            no_shared_memory: true,
            ..ServiceConfig::default()
        };
        Service::connect(keys, &self.address, config).map_err(|error| error.to_string())
    }
}

/// Reads a dataset slowly, and returns its elements in order.
fn read_slowly(trainer: &Service) -> Vec<i64> {
    let dataset = trainer.register(Dataset::range(0, ELEMENTS, 1), None);
    let request = ReadRequest::new(dataset.expect("registered"), Policy::Dynamic);
    let job = trainer.job(&request).expect("a job");
    let reader = trainer.read(job, 0, &ReaderConfig::default()).expect("a reader");
    let mut seen = Vec::new();
    for element in reader {
        seen.extend(numbers(&element.expect("the reader proceeds")));
        if seen.len().is_multiple_of(EVERY) {
            std::thread::sleep(PAUSE);
        }
    }
    seen.sort_unstable();
    seen
}

fn load(text: &str) -> LoadedKey {
    KeySource::from_setting(text).load().expect("keys")
}

#[test]
fn keys_rotate_under_load_without_loss() {
    watched("a rotation", || {
        let folder = tempfile::tempdir().expect("a directory");
        let [old, new] = [(); 2].map(|()| ClusterKey::generate().expect("randomness"));
        let public = |key| PublicKeys::from(key).to_text();
        let stages = [
            old.to_text(),
            format!("{}\n{}", old.to_text(), public(&new)),
            format!("{}\n{}", new.to_text(), public(&old)),
            new.to_text(),
        ]
        .map(|text| load(&text));
        let mut service = Rotation {
            address: lasting_address(),
            config: DispatcherConfig {
                work_dir: Some(folder.path().join("work")),
                ..prompt()
            },
            dispatcher: None,
            workers: Vec::new(),
        };
        service.use_keys(&stages[0]);
        for (keys, next) in stages.iter().zip(&stages[1..]) {
            let trainer = service.connect(keys).expect("its key is accepted");
            let seen = std::thread::scope(|scope| {
                let reading = scope.spawn(|| read_slowly(&trainer));
                service.use_keys(next);
                reading.join().expect("no panic")
            });
            assert_eq!(seen, (0..ELEMENTS).collect::<Vec<_>>(), "each once");
        }
        let Err(error) = service.connect(&stages[0]) else {
            panic!("the old key is accepted");
        };
        assert!(error.contains("key"), "{error}");
        let trainer = service.connect(&stages[3]).expect("the new key is accepted");
        assert_eq!(read_slowly(&trainer).len() as i64, ELEMENTS);
    });
}
