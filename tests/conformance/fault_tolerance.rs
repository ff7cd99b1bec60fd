//! fault_tolerance_test: dispatchers that stop or restart, and workers that register late or leave.

use std::cell::RefCell;
use std::fmt::Display;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use millstream::client::MaxOutstanding;
use millstream::control::{DispatcherConfig, Policy};
use millstream::link::LoadedKey;
use millstream::pipeline::exec::Functions;
use millstream::pipeline::graph::Dataset;
use millstream::{Dispatcher, Service, ServiceConfig, Worker, WorkerConfig};
use tempfile::TempDir;

use super::data_service_ops_datasets::large;
use super::harness::{Distributed, distribute, range, sorted, take, times};
use crate::support::cluster::{drain, fresh_key, prompt};
use crate::support::mortal::lasting_address;
use crate::support::{eventually, watched};

/// The liveness timeout, longer than any living process is silent on a busy machine.
const LIVENESS: Duration = Duration::from_secs(5);

/// The number of elements that a reader prefetches. The prefetch is smaller than the number of remaining
/// elements at each fault.
const AHEAD: MaxOutstanding = MaxOutstanding::Elements(5);

/// Returns the numbers from 0 to `count` (exclusive), in order.
fn once(count: i64) -> Vec<i64> {
    (0..count).collect()
}

/// The address and the records of a dispatcher, which survive restarts.
struct Place {
    key: LoadedKey,
    address: String,
    /// The folder of the dispatcher's records, or `None` for a dispatcher without a work directory.
    folder: Option<TempDir>,
}

impl Place {
    fn new(is_kept: bool) -> Self {
        Self {
            key: fresh_key().0,
            address: lasting_address(),
            folder: is_kept.then(|| tempfile::tempdir().expect("a directory")),
        }
    }

    fn connect(&self) -> Service {
        Service::connect(&self.key, &self.address, ServiceConfig::default()).expect("a trainer's side")
    }

    fn dispatcher(&self) -> Dispatcher {
        let config = || DispatcherConfig {
            liveness: LIVENESS,
            workers_lost_grace: LIVENESS,
            work_dir: self.folder.as_ref().map(|folder| folder.path().to_owned()),
            ..prompt()
        };
        let address = self.address.parse().expect("an address");
        begun("the dispatcher starts", || {
            Dispatcher::start(&self.key, Some(address), config(), Arc::new(Functions::new()))
        })
    }

    /// Starts a worker at this address, or at any free address.
    fn worker(&self, bind: Option<SocketAddr>) -> Worker {
        begun("the worker starts", || {
            let config = WorkerConfig {
                bind,
                threads: Some(2),
                ..WorkerConfig::new(&self.address)
            };
            Worker::start(&self.key, config)
        })
    }
}

/// Calls `start` until the previous process has released the address, and returns its result.
fn begun<T, E: Display>(what: &str, start: impl Fn() -> Result<T, E>) -> T {
    let mut server = None;
    eventually(what, &Ok(()), || match start() {
        Ok(started) => {
            server = Some(started);
            Ok(())
        }
        Err(error) => Err(error.to_string()),
    });
    server.expect("it has started")
}

/// A service in this process whose servers can be restarted. Dropping the deployment ends the trainer, the
/// workers and the dispatcher, in this order.
struct Deployment {
    service: Option<Service>,
    workers: RefCell<Vec<Worker>>,
    dispatcher: RefCell<Option<Dispatcher>>,
    place: Place,
}

impl Deployment {
    /// Starts a service whose dispatcher has a work directory.
    fn start(workers: usize) -> Self {
        Self::start_at(Place::new(true), workers)
    }

    fn start_at(place: Place, workers: usize) -> Self {
        let dispatcher = place.dispatcher();
        let workers = (0..workers).map(|_| place.worker(None)).collect();
        Self {
            service: Some(place.connect()),
            workers: RefCell::new(workers),
            dispatcher: RefCell::new(Some(dispatcher)),
            place,
        }
    }

    fn service(&self) -> &Service {
        self.service.as_ref().expect("there until the end")
    }

    /// Distributes a dataset whose reader prefetches few elements.
    fn distribute(&self, dataset: Dataset, policy: Policy) -> Distributed<'_> {
        let mut distributed = distribute(self.service(), dataset, policy);
        distributed.config.max_outstanding = AHEAD;
        distributed
    }

    fn add_worker(&self) {
        self.workers.borrow_mut().push(self.place.worker(None));
    }

    /// Ends the dispatcher without a goodbye.
    fn stop_dispatcher(&self) {
        drop(self.dispatcher.take());
    }

    fn restart_dispatcher(&self) {
        self.stop_dispatcher();
        self.dispatcher.replace(Some(self.place.dispatcher()));
    }

    /// Stops the first worker, and starts it at the same address.
    fn restart_worker(&self) {
        let worker = self.workers.borrow_mut().remove(0);
        let address = worker.local_addr();
        worker.stop().expect("a clean exit");
        self.workers.borrow_mut().push(self.place.worker(Some(address)));
    }

    /// Reads all elements, and restarts the dispatcher after each of these numbers of elements.
    fn read_with_restarts(&self, dataset: Dataset, policy: Policy, breakpoints: &[usize]) -> Vec<i64> {
        let mut reader = self.distribute(dataset, policy).reader();
        let mut found = Vec::new();
        for breakpoint in breakpoints {
            found.extend(take(&mut reader, breakpoint - found.len()));
            assert_eq!(found.len(), *breakpoint, "it ends too early");
            self.restart_dispatcher();
        }
        found.extend(drain(&mut reader));
        let lost = &reader.stats().lost_splits;
        assert!(lost.is_empty(), "{lost:?}");
        found
    }
}

impl Drop for Deployment {
    fn drop(&mut self) {
        self.service = None;
        for worker in self.workers.take() {
            // A worker without a dispatcher for its goodbye ends as well.
            let _ = worker.stop();
        }
        self.stop_dispatcher();
    }
}

#[test]
fn fault_tolerance_test__dispatcher_stop() {
    watched("a dispatcher stops", || {
        let deployment = Deployment::start(1);
        let mut reader = deployment.distribute(range(100), Policy::Off).reader();
        assert_eq!(take(&mut reader, 1), [0]);
        deployment.stop_dispatcher();
        assert_eq!(take(&mut reader, 99), (1..100).collect::<Vec<_>>());
    });
}

#[test]
fn fault_tolerance_test__dispatcher_restart_before_reading() {
    watched("restarted before reading", || {
        let deployment = Deployment::start(1);
        let distributed = deployment.distribute(range(100), Policy::Off);
        deployment.restart_dispatcher();
        assert_eq!(distributed.numbers(), once(100));
    });
}

#[test]
fn fault_tolerance_test__dispatcher_restart_during_reading() {
    watched("restarted while reading", || {
        let found = Deployment::start(1).read_with_restarts(range(100), Policy::Off, &[50]);
        assert_eq!(found, once(100));
    });
}

#[test]
fn fault_tolerance_test__dispatcher_restart_during_distributed_epoch() {
    watched("restarted in an epoch", || {
        let found = Deployment::start(1).read_with_restarts(range(100), Policy::Dynamic, &[50]);
        assert_eq!(found, once(100));
    });
}

#[test]
fn fault_tolerance_test__dispatcher_restart_during_distributed_epoch_repeat() {
    watched("restarted in repeated epochs", || {
        let repeated = range(100).repeat(Some(5));
        let breakpoints = [50, 250, 450, 500];
        let found = Deployment::start(1).read_with_restarts(repeated, Policy::Dynamic, &breakpoints);
        assert_eq!(sorted(found), times(5, 100));
    });
}

#[test]
fn fault_tolerance_test__dispatcher_restart_between_iterations() {
    watched("restarted between passes", || {
        let deployment = Deployment::start(1);
        let distributed = deployment.distribute(range(100), Policy::Off);
        assert_eq!(distributed.numbers(), once(100));
        deployment.restart_dispatcher();
        assert_eq!(distributed.numbers(), once(100));
    });
}

#[test]
fn fault_tolerance_test__dispatcher_restart_with_multiple_datasets() {
    every_dataset_outlives_restarts(&[100; 10]);
}

#[test]
fn fault_tolerance_test__dispatcher_many_restarts() {
    every_dataset_outlives_restarts(&[10, 11, 12, 13, 14]);
}

/// Registers a dataset of each size, restarts the dispatcher after each, and then reads all datasets.
fn every_dataset_outlives_restarts(sizes: &'static [i64]) {
    watched("restarted for each dataset", move || {
        let deployment = Deployment::start(1);
        let mut datasets = Vec::new();
        for size in sizes {
            datasets.push((*size, deployment.distribute(range(*size), Policy::Off)));
            deployment.restart_dispatcher();
        }
        for (size, distributed) in datasets {
            assert_eq!(distributed.numbers(), once(size));
        }
    });
}

#[test]
fn fault_tolerance_test__dispatcher_and_worker_restart() {
    watched("both restarted", || {
        let deployment = Deployment::start(1);
        let distributed = deployment.distribute(range(100), Policy::Off);
        for _ in 0..2 {
            deployment.restart_dispatcher();
            deployment.restart_worker();
            assert_eq!(distributed.numbers(), once(100));
        }
    });
}

#[test]
fn fault_tolerance_test__start_servers_late() {
    watched("late servers", || {
        let place = Arc::new(Place::new(false));
        let silent = UdpSocket::bind(&place.address).expect("a free port");
        let trainer = thread::spawn({
            let place = place.clone();
            move || {
                let service = place.connect();
                distribute(&service, range(10), Policy::Off).numbers()
            }
        });
        silent.recv_from(&mut [0; 2048]).expect("somebody knocks");
        drop(silent);
        let _dispatcher = place.dispatcher();
        let worker = place.worker(None);
        assert_eq!(trainer.join().expect("the trainer reads"), once(10));
        worker.stop().expect("a clean exit");
    });
}

#[test]
fn fault_tolerance_test__add_worker_mid_job() {
    watched("a further worker", || {
        let cpus = thread::available_parallelism().expect("it is known").get();
        let elements = 2 * cpus as i64 + 100;
        let deployment = Deployment::start(1);
        let mut reader = deployment.distribute(range(elements), Policy::Off).reader();
        let mut found = take(&mut reader, elements as usize / 2);
        deployment.add_worker();
        let workers = || deployment.service().status().expect("a status").counts.workers;
        eventually("workers", &2, workers);
        found.extend(drain(&mut reader));
        assert_eq!(sorted(found), times(2, elements));
    });
}

#[test]
fn fault_tolerance_test__remove_more_workers_than_max_outstanding_requests() {
    watched("workers that go", || {
        const WORKERS: usize = 5;
        let deployment = Deployment::start(WORKERS);
        let mut distributed = deployment.distribute(range(1 << 55), Policy::Off);
        distributed.config.max_outstanding = MaxOutstanding::Elements(1);
        let mut reader = distributed.reader();
        let mut zeros = 0;
        while zeros < WORKERS {
            zeros += usize::from(take(&mut reader, 1) == [0]);
        }
        for worker in deployment.workers.borrow_mut().drain(1..) {
            worker.stop().expect("a clean exit");
        }
        assert_eq!(take(&mut reader, 10).len(), 10);
    });
}

#[test]
fn fault_tolerance_test__distribute_large_graph_then_register_worker() {
    watched("a worker for a large graph", || {
        for is_kept in [true, false] {
            let deployment = Deployment::start_at(Place::new(is_kept), 0);
            let (spec, ones) = large();
            let dataset = Dataset::tensors(spec, vec![ones.clone()]);
            let mut reader = deployment.distribute(dataset, Policy::Off).reader();
            deployment.add_worker();
            let element = reader.next_element().expect("the reader proceeds");
            let element = element.expect("there is one");
            let tensor = element.component(0).expect("one component");
            assert!(tensor.bytes() == ones.fixed, "8 MB of ones");
            assert!(reader.next_element().expect("the reader proceeds").is_none());
        }
    });
}
