//! Tests of the end of a whole service, and of processes that wait for a service, in separate processes and
//! in this process.
#![expect(clippy::unwrap_used, reason = "tests and their helpers fail by panicking")]

use std::net::UdpSocket;
use std::time::Duration;

use millstream::client::{MaxOutstanding, ReadError};
use millstream::control::rpc::SessionConfig;
use millstream::control::{DispatcherConfig, JobId, Phase, Policy};
use millstream::link::{ClusterKey, Role};
use millstream::pipeline::exec::Functions;
use millstream::pipeline::graph::Dataset;
use millstream::{Dispatcher, ReadRequest, Service, ServiceConfig, Worker, WorkerConfig};

use crate::support::cluster::{Cluster, drain, fresh_key};
use crate::support::links::Mechanism;
use crate::support::process::{Process, Running, finish, millstream};
use crate::support::{eventually, watched};

/// Flags that keep a dispatcher from declaring a silent process dead during a test.
const PATIENT: [&str; 2] = ["--liveness-s", "3600"];

/// The shutdown of a service by a command, end to end (C12.1 to C12.3).
#[test]
fn a_command_ends_a_whole_service() {
    watched("shutdown", || {
        let (key, text) = fresh_key();
        // The quiet period is so long that a process which waits for its end would make the test hang.
        let mut dispatcher = dispatcher(&text, "3600");
        let address = dispatcher.address.clone();
        let mut workers = [worker(&text, &address), worker(&text, &address)];
        let service = Service::connect(&key, &address, ServiceConfig::default()).unwrap();
        let job = job(&service, 1 << 40);
        let mut reader = service.read(job, 0, &Default::default()).unwrap();
        reader.next_element().unwrap().unwrap();
        let other = Running::start(millstream(
            &text,
            &["read", "--dispatcher", &address, "--range", "1000000000000"],
        ));
        eventually("clients", &2, || service.status().unwrap().counts.clients);
        let finished = finish(millstream(&text, &["shutdown", "--dispatcher", &address]));
        assert!(finished.status.success(), "{finished:?}");
        assert_eq!(finished.stdout, format!("the service at {address} has ended\n"));
        let error = reader.find_map(Result::err).unwrap();
        let ReadError::ShutDown { by } = &error else {
            panic!("{error}")
        };
        assert!(by.contains("process") && by.contains("127.0.0.1"), "{by}");
        let finished = other.finish();
        assert_eq!(finished.status.code(), Some(1));
        assert!(
            finished.stderr.contains("was shut down by process"),
            "{finished:?}"
        );
        assert!(dispatcher.has_ended_well());
        assert!(workers.iter_mut().all(Process::has_ended_well));
        let error = service.status().unwrap_err().to_string();
        assert!(error.contains("was shut down by"), "{error}");
    });
}

/// C12.3
#[test]
fn a_service_ends_despite_hanging_processes() {
    watched("shutdown of a hung service", || {
        let (key, text) = fresh_key();
        let mut dispatcher = dispatcher(&text, "1");
        let address = dispatcher.address.clone();
        let mut stopped = worker(&text, &address);
        let service = Service::connect(&key, &address, ServiceConfig::default()).unwrap();
        eventually("workers", &1, || service.status().unwrap().counts.workers);
        let hangs = Running::start(millstream(
            &text,
            &["read", "--dispatcher", &address, "--range", "1000000000000"],
        ));
        eventually("clients", &1, || service.status().unwrap().counts.clients);
        stopped.signal("STOP");
        hangs.signal("STOP");
        service.shutdown().unwrap();
        assert!(dispatcher.has_ended_well());
        // The stopped process finds the shutdown message when it continues.
        stopped.signal("CONT");
        assert!(stopped.has_ended_well());
    });
}

/// C12.1
#[test]
fn readers_and_workers_may_not_end_it() {
    watched("shutdown refused", || {
        let text = ClusterKey::generate().unwrap().to_text();
        let dispatcher = dispatcher(&text, "1");
        let cluster = ClusterKey::from_text(&text).unwrap();
        let shutdown = ["shutdown", "--dispatcher", &dispatcher.address];
        for (role, name) in [(Role::Read, "read"), (Role::Worker, "worker")] {
            let finished = finish(millstream(&cluster.role_key(role).to_text(), &shutdown));
            assert_eq!(finished.status.code(), Some(1), "{finished:?}");
            let refusal = format!("role `{name}` may not shut the service down");
            assert!(finished.stderr.contains(&refusal), "{finished:?}");
        }
        let submit = cluster.role_key(Role::Submit).to_text();
        assert!(finish(millstream(&submit, &shutdown)).status.success());
    });
}

/// C12.4
#[test]
fn a_service_continues_from_its_work_directory() {
    watched("shutdown and restart", || {
        let (key, _) = fresh_key();
        let directory = tempfile::tempdir().unwrap();
        let config = DispatcherConfig {
            work_dir: Some(directory.path().to_owned()),
            ..DispatcherConfig::default()
        };
        let start = || Dispatcher::start(&key, None, config.clone(), Functions::new().into()).unwrap();
        let serve = |dispatcher: &Dispatcher| {
            let address = dispatcher.local_addr().to_string();
            let worker = Worker::start(&key, WorkerConfig::new(&address)).unwrap();
            (
                worker,
                Service::connect(&key, &address, ServiceConfig::default()).unwrap(),
            )
        };
        let first = start();
        let (worker, service) = serve(&first);
        let job = job(&service, 100);
        let mut reader = service.read(job, 0, &Default::default()).unwrap();
        assert_eq!(drain(&mut reader).len(), 100);
        drop(reader);
        service.shutdown().unwrap();
        first.join().unwrap();
        worker.join().unwrap();
        let second = start();
        let (_worker, service) = serve(&second);
        assert_eq!(service.status().unwrap().counts.clients, 0);
        let mut reader = service.read(job, 1, &Default::default()).unwrap();
        assert_eq!(drain(&mut reader).len(), 100);
    });
}

#[test]
fn a_complete_reader_reaches_the_end() {
    watched("shutdown behind the end", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let mut reader = cluster.read(
            Dataset::range(0, 100, 1),
            Policy::Dynamic,
            MaxOutstanding::Elements(200),
        );
        reader.next_element().unwrap().unwrap();
        // The reader's buffer has room for all elements, so the iteration finishes.
        let phase = || cluster.service().status().unwrap().iterations[0].phase;
        eventually("an end of the iteration", &Phase::Finished, phase);
        cluster.service().shutdown().unwrap();
        assert_eq!(drain(&mut reader).len(), 99);
    });
}

#[test]
fn a_dispatcher_may_be_stopped_repeatedly() {
    watched("dispatcher's stop and join", || {
        let (key, _) = fresh_key();
        let dispatcher =
            Dispatcher::start(&key, None, DispatcherConfig::default(), Functions::new().into()).unwrap();
        let stopper = dispatcher.stopper().unwrap();
        assert!(!dispatcher.has_ended());
        stopper.stop();
        stopper.stop();
        eventually("an end", &true, || dispatcher.has_ended());
        dispatcher.join().unwrap();
        stopper.stop();
    });
}

/// A reader stops its retries at the timeout, if the dispatcher does not return.
#[test]
fn a_lost_dispatcher_is_given_up() {
    watched("a dispatcher that does not come back", || {
        let session = SessionConfig {
            give_up: Duration::from_millis(300),
            ..SessionConfig::default()
        };
        let (key, _) = fresh_key();
        let dispatcher =
            Dispatcher::start(&key, None, DispatcherConfig::default(), Functions::new().into()).unwrap();
        let address = dispatcher.local_addr().to_string();
        let worker = WorkerConfig {
            session: session.clone(),
            ..WorkerConfig::new(&address)
        };
        let worker = Worker::start(&key, worker).unwrap();
        let config = ServiceConfig {
            session,
            ..ServiceConfig::default()
        };
        let service = Service::connect(&key, &address, config).unwrap();
        let mut reader = service
            .read(job(&service, 1 << 40), 0, &Default::default())
            .unwrap();
        reader.next_element().unwrap().unwrap();
        dispatcher.stop().unwrap();
        let named = |error: String| {
            assert!(
                error.contains(&address) && error.contains("out of reach"),
                "{error}"
            )
        };
        named(reader.find_map(Result::err).unwrap().to_string());
        named(worker.join().unwrap_err().to_string());
    });
}

/// The commands have deadlines beyond the test's watchdog.
#[test]
fn a_signal_ends_waiting_for_a_dispatcher() {
    for name in ["INT", "TERM"] {
        for command in ["worker", "read", "shutdown"] {
            // The port is bound, so that no other process answers there.
            let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
            let address = silent.local_addr().unwrap().to_string();
            let mut arguments = vec![command, "--dispatcher", &address];
            if command == "read" {
                arguments.extend(["--range", "10"]);
            }
            if command != "shutdown" {
                arguments.extend(["--wait-s", "3600"]);
            }
            let waiting = Running::start(millstream(&fresh_key().1, &arguments));
            // The command watches signals before it sends its first packet.
            silent.recv_from(&mut [0; 2048]).unwrap();
            waiting.signal(name);
            let finished = waiting.finish();
            assert_eq!(finished.status.success(), command == "worker", "{finished:?}");
        }
    }
}

/// A worker without a dispatcher ends at once on SIGINT and SIGTERM, although its deadlines are beyond the
/// test's watchdog.
#[test]
fn a_lone_worker_ends_on_either_signal() {
    watched("a worker alone", || {
        for name in ["INT", "TERM"] {
            let (_, text) = fresh_key();
            let dispatcher = dispatcher(&text, "1");
            let arguments = [
                "worker",
                "--dispatcher",
                &dispatcher.address,
                "--drain-deadline-s",
                "3600",
            ];
            let mut worker = Process::start(&text, &arguments);
            assert!(dispatcher.ends_well());
            worker.signal(name);
            assert!(worker.has_ended_well());
        }
    });
}

fn dispatcher(key: &str, quiet_period_s: &str) -> Process {
    let arguments = [
        "dispatcher",
        "--bind",
        "127.0.0.1:0",
        "--shutdown-quiet-period-s",
        quiet_period_s,
    ];
    Process::start(key, &[arguments.as_slice(), &PATIENT].concat())
}

fn worker(key: &str, dispatcher: &str) -> Process {
    Process::start(key, &["worker", "--dispatcher", dispatcher])
}

fn job(service: &Service, elements: i64) -> JobId {
    let dataset = service.register(Dataset::range(0, elements, 1), None).unwrap();
    service.job(&ReadRequest::new(dataset, Policy::Dynamic)).unwrap()
}
