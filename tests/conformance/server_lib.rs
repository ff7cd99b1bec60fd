//! The rows of server_lib_test: the start and the end of servers.

use std::net::SocketAddr;
use std::sync::Arc;

use millstream::control::DispatcherConfig;
use millstream::link::LoadedKey;
use millstream::pipeline::exec::Functions;
use millstream::{Dispatcher, DispatcherError, Worker, WorkerConfig};

use crate::support::cluster::{Cluster, fresh_key, prompt};
use crate::support::links::Mechanism;
use crate::support::mortal::lasting_address;
use crate::support::{eventually, watched};

fn dispatcher(key: &LoadedKey, bind: Option<SocketAddr>) -> Result<Dispatcher, DispatcherError> {
    Dispatcher::start(key, bind, prompt(), Arc::new(Functions::new()))
}

fn worker(cluster: &Cluster, bind: Option<SocketAddr>) -> Worker {
    let config = WorkerConfig {
        bind,
        threads: Some(1),
        ..WorkerConfig::new(&cluster.address)
    };
    Worker::start(&cluster.key, config).expect("a worker")
}

fn address() -> Option<SocketAddr> {
    Some(lasting_address().parse().expect("an address"))
}

/// Waits until the dispatcher counts `count` living workers.
fn has_workers(cluster: &Cluster, count: u64) {
    eventually("workers", &count, || {
        cluster.service().status().expect("a status").counts.workers
    });
}

/// A work directory is the only switch for fault tolerance, so it cannot be missing. A path that is not a
/// directory is refused.
#[test]
fn server_lib_test__start_dispatcher_with_wrong_fault_tolerant_config() {
    watched("wrong directory", || {
        let (key, _) = fresh_key();
        let file = tempfile::NamedTempFile::new().expect("a file");
        let config = DispatcherConfig {
            work_dir: Some(file.path().to_owned()),
            ..prompt()
        };
        let error = Dispatcher::start(&key, None, config, Arc::new(Functions::new()))
            .expect_err("a file is no directory");
        assert!(matches!(error, DispatcherError::WorkDir(_)), "{error}");
        let path = file.path().display().to_string();
        assert!(error.to_string().contains(&path), "{error}");
    });
}

#[test]
fn server_lib_test__stop_dispatcher() {
    watched("stop twice", || {
        let (key, _) = fresh_key();
        let dispatcher = dispatcher(&key, None).expect("a dispatcher");
        let stopper = dispatcher.stopper().expect("it runs");
        stopper.stop();
        stopper.stop();
        eventually("its end", &true, || dispatcher.has_ended());
        dispatcher.stop().expect("as if it were the first time");
        stopper.stop();
    });
}

#[test]
fn server_lib_test__stop_worker() {
    watched("stop twice", || {
        let cluster = Cluster::plain(Mechanism::Quic, 0);
        let worker = worker(&cluster, None);
        has_workers(&cluster, 1);
        let stopper = worker.stopper();
        stopper.stop();
        stopper.stop();
        eventually("its end", &true, || worker.has_ended());
        worker.stop().expect("as if it were the first time");
        stopper.stop();
        has_workers(&cluster, 0);
    });
}

/// A stopped server cannot be started again, because `stop` consumes it. Another server can start at its
/// address.
#[test]
fn server_lib_test__stop_start_dispatcher() {
    watched("start after stop", || {
        let ((key, _), bind) = (fresh_key(), address());
        let first = dispatcher(&key, bind).expect("a dispatcher");
        let refused = dispatcher(&key, bind).expect_err("the address is taken");
        assert!(matches!(refused, DispatcherError::Start(_)), "{refused}");
        first.stop().expect("a clean exit");
        let second = dispatcher(&key, bind).expect("the address is free");
        assert_eq!(Some(second.local_addr()), bind);
        second.stop().expect("a clean exit");
    });
}

/// The counterpart of [`server_lib_test__stop_start_dispatcher`] for workers.
#[test]
fn server_lib_test__stop_start_worker() {
    watched("start after stop", || {
        let (cluster, bind) = (Cluster::plain(Mechanism::Quic, 0), address());
        for _ in 0..2 {
            let worker = worker(&cluster, bind);
            assert_eq!(Some(worker.local_addr()), bind);
            has_workers(&cluster, 1);
            worker.stop().expect("a clean exit");
            has_workers(&cluster, 0);
        }
    });
}

#[test]
fn server_lib_test__join_dispatcher() {
    watched("join a dispatcher", || {
        let (key, _) = fresh_key();
        let dispatcher = dispatcher(&key, None).expect("a dispatcher");
        let stopper = dispatcher.stopper().expect("it runs");
        assert!(!dispatcher.has_ended());
        let joining = std::thread::spawn(move || dispatcher.join());
        stopper.stop();
        joining.join().expect("no panic").expect("a clean exit");
    });
}

#[test]
fn server_lib_test__join_worker() {
    watched("join a worker", || {
        let cluster = Cluster::plain(Mechanism::Quic, 0);
        let worker = worker(&cluster, None);
        let stopper = worker.stopper();
        assert!(!worker.has_ended());
        let joining = std::thread::spawn(move || worker.join());
        stopper.stop();
        joining.join().expect("no panic").expect("a clean exit");
    });
}

#[test]
fn server_lib_test__dispatcher_num_workers() {
    watched("workers counted", || {
        let mut cluster = Cluster::plain(Mechanism::Quic, 0);
        for count in 0..=2 {
            has_workers(&cluster, count);
            let worker = worker(&cluster, None);
            cluster.workers.push(worker);
        }
    });
}
