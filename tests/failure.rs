//! Tests of processes that die, hang or never start, and of wrong keys and addresses.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream::client::{LostSplits, MaxOutstanding, ReadError, Reader, ReaderConfig};
use millstream::control::rpc::SessionConfig;
use millstream::control::{DispatcherConfig, Policy};
use millstream::dataplane::TaskId;
use millstream::link::{ClusterKey, EndpointConfig, KeySource, Role};
use millstream::pipeline::exec::{BoxError, Functions, MapCall, PreparedMap, Value};
use millstream::pipeline::graph::{Dataset, Params, Units};
use millstream::{ReadRequest, Service, ServiceConfig, Worker, WorkerConfig};
use parking_lot::Mutex;

use crate::support::cluster::{Cluster, fresh_key, number, numbers, prompt};
use crate::support::links::Mechanism;
use crate::support::losses::next_or_lost;
use crate::support::process::Process;
use crate::support::{eventually, watched};

/// The number of elements, large enough that readers are still reading when a worker dies.
const ELEMENTS: i64 = 60_000;

#[test]
fn a_killed_workers_elements_are_accounted_for() {
    watched("SIGKILL", || a_worker_ends_in_the_middle(Mechanism::Quic, "KILL"));
}

#[test]
fn a_stopped_worker_is_given_up_in_time() {
    watched("SIGSTOP", || a_worker_ends_in_the_middle(Mechanism::Quic, "STOP"));
}

/// The worker's system and its reader report the death long before the worker's lease ends (C7.4).
#[test]
fn a_killed_worker_is_missed_without_its_silence() {
    watched("SIGKILL, seen by others", || {
        let config = DispatcherConfig {
            liveness: Duration::from_secs(3600),
            ..prompt()
        };
        let cluster = Cluster::plain_with(Mechanism::Quic, config, 0);
        let workers: Vec<Process> = (0..3).map(|_| Process::worker(&cluster)).collect();
        let mut reader = cluster.read(
            Dataset::range(0, ELEMENTS, 1),
            Policy::Dynamic,
            MaxOutstanding::Elements(300),
        );
        let mut seen = take(&mut reader, ELEMENTS as usize / 4);
        workers[0].signal("KILL");
        eventually("workers written off", &1, || cluster.dead_workers());
        seen.extend(take(&mut reader, usize::MAX));
        each_came_once_or_is_reported_lost(&seen, &reader.stats().lost_splits);
    });
}

/// A reader must not mistake a worker's goodbye for the end of the data.
#[test]
fn a_leaving_worker_neither_repeats_nor_ends_reading() {
    watched("SIGINT", || a_worker_ends_in_the_middle(Mechanism::Quic, "INT"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_worker_of_this_host_ends_alike() {
    for signal in ["KILL", "STOP", "INT"] {
        watched(signal, || a_worker_ends_in_the_middle(Mechanism::Shm, signal));
    }
}

fn a_worker_ends_in_the_middle(mechanism: Mechanism, signal: &str) {
    let cluster = Cluster::plain(mechanism, 0);
    let workers: Vec<Process> = (0..3).map(|_| Process::worker(&cluster)).collect();
    let mut reader = cluster.read(
        Dataset::range(0, ELEMENTS, 1),
        Policy::Dynamic,
        MaxOutstanding::Elements(300),
    );
    let mut seen = take(&mut reader, ELEMENTS as usize / 4);
    workers[0].signal(signal);
    eventually("workers written off", &1, || cluster.dead_workers());
    seen.extend(take(&mut reader, usize::MAX));
    each_came_once_or_is_reported_lost(&seen, &reader.stats().lost_splits);
}

fn each_came_once_or_is_reported_lost(seen: &[i64], lost: &[LostSplits]) {
    let distinct: BTreeSet<i64> = seen.iter().copied().collect();
    assert_eq!(distinct.len(), seen.len(), "a number came twice");
    let units = Units::of(ELEMENTS as u64);
    let lost_numbers: BTreeSet<i64> = lost
        .iter()
        .flat_map(|lost| lost.first..lost.first + lost.count)
        .flat_map(|split| units.range(split).expect("a split of the range"))
        .map(|number| number as i64)
        .collect();
    let missing: BTreeSet<i64> = (0..ELEMENTS)
        .filter(|number| !distinct.contains(number))
        .collect();
    assert!(
        missing.is_subset(&lost_numbers),
        "missing and not reported: {:?}",
        missing.difference(&lost_numbers)
    );
    let splits: u64 = lost.iter().map(|lost| lost.count).sum();
    assert!(
        splits <= 300,
        "{splits} splits reported lost, more than could have been begun"
    );
}

#[test]
fn a_given_up_worker_may_return() {
    watched("SIGCONT", || {
        let cluster = Cluster::plain(Mechanism::Quic, 0);
        let workers: Vec<Process> = (0..3).map(|_| Process::worker(&cluster)).collect();
        let mut reader = cluster.read(
            Dataset::range(0, ELEMENTS, 1),
            Policy::Dynamic,
            MaxOutstanding::Elements(300),
        );
        let mut seen = take(&mut reader, ELEMENTS as usize / 4);
        workers[0].signal("STOP");
        eventually("workers written off", &1, || cluster.dead_workers());
        workers[0].signal("CONT");
        let living = || cluster.service().status().expect("a status").counts.workers;
        eventually("living workers", &3, living);
        seen.extend(take(&mut reader, usize::MAX));
        each_came_once_or_is_reported_lost(&seen, &reader.stats().lost_splits);
        let mut reader = cluster.read(
            Dataset::range(0, 100, 1),
            Policy::Off,
            MaxOutstanding::Elements(10),
        );
        assert_eq!(take(&mut reader, usize::MAX).len(), 300, "all three work");
    });
}

#[test]
fn shared_jobs_survive_a_killed_worker() {
    watched("two readers, SIGKILL", || {
        let cluster = Cluster::plain(Mechanism::Quic, 0);
        let workers: Vec<Process> = (0..3).map(|_| Process::worker(&cluster)).collect();
        let dataset = cluster.service().register(Dataset::range(0, ELEMENTS, 1), None);
        let request = ReadRequest {
            job_name: Some("shared".to_owned()),
            ..ReadRequest::new(dataset.expect("registered"), Policy::Dynamic)
        };
        let config = ReaderConfig {
            max_outstanding: MaxOutstanding::Elements(100),
            ..ReaderConfig::default()
        };
        let mut readers: Vec<Reader> = (0..2)
            .map(|_| {
                let job = cluster.service().job(&request).expect("a job");
                cluster.service().read(job, 0, &config).expect("a reader")
            })
            .collect();
        let mut seen: Vec<i64> = readers
            .iter_mut()
            .flat_map(|reader| take(reader, ELEMENTS as usize / 8))
            .collect();
        workers[0].signal("KILL");
        let rest = readers.into_iter().map(|mut reader| {
            std::thread::spawn(move || {
                let rest = take(&mut reader, usize::MAX);
                (rest, reader.stats().lost_splits)
            })
        });
        let rest: Vec<_> = rest.collect();
        let mut lost = Vec::new();
        for reader in rest {
            let (numbers, splits) = reader.join().expect("the reader proceeds");
            seen.extend(numbers);
            // Both readers receive the whole list of lost splits.
            lost = splits;
        }
        each_came_once_or_is_reported_lost(&seen, &lost);
    });
}

#[test]
fn an_error_names_all_killed_workers() {
    watched("all killed", || {
        let cluster = Cluster::plain(Mechanism::Quic, 0);
        let workers: Vec<Process> = (0..2).map(|_| Process::worker(&cluster)).collect();
        let mut reader = cluster.read(
            Dataset::range(0, 1 << 40, 1),
            Policy::Dynamic,
            MaxOutstanding::Auto,
        );
        take(&mut reader, 1000);
        for worker in &workers {
            worker.signal("KILL");
        }
        let error = loop {
            match reader.next_element() {
                Ok(element) => assert!(element.is_some(), "ended as if it were complete"),
                Err(error) => break error,
            }
        };
        let ReadError::WorkersLost { workers: named } = &error else {
            panic!("{error}")
        };
        let named: BTreeSet<&String> = named.iter().collect();
        assert_eq!(
            named,
            workers
                .iter()
                .map(|worker| &worker.address)
                .collect::<BTreeSet<_>>(),
            "{error}"
        );
    });
}

#[test]
fn a_dropped_worker_leaves_no_computation() {
    watched("no computation left", || {
        for is_stopped in [true, false] {
            let held = Arc::new(());
            let holder = held.clone();
            let pass = move |value| {
                let _held = &holder;
                // The computation takes longer than the end of a worker otherwise does.
                std::thread::sleep(Duration::from_millis(100));
                Ok(value)
            };
            let mut cluster = Cluster::start(Mechanism::Quic, vec![passing(pass)]);
            let dataset = Dataset::range(0, 1 << 40, 1).map_declared("pass", Params::none(), number());
            let mut reader = cluster.read(dataset, Policy::Off, MaxOutstanding::Elements(10));
            take(&mut reader, 1);
            let worker = cluster.workers.pop().expect("there is one");
            if is_stopped {
                worker.stop().expect("a clean exit");
            } else {
                drop(worker);
            }
            assert_eq!(Arc::strong_count(&held), 1, "all that is left is the test's own");
        }
    });
}

#[test]
fn a_dropped_reader_is_forgotten() {
    watched("dropped reader", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let clients = || cluster.service().status().expect("a status").counts.clients;
        let mut reader = cluster.read(
            Dataset::range(0, 1 << 40, 1),
            Policy::Off,
            MaxOutstanding::Elements(10),
        );
        take(&mut reader, 100);
        assert_eq!(clients(), 1);
        drop(reader);
        eventually("clients", &0, clients);
        eventually("links", &0, || cluster.workers[0].server().links().len());
    });
}

#[test]
fn a_worker_ends_without_its_dispatcher() {
    watched("deaf dispatcher", || {
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let gate = Mutex::new(gate);
        // The call returns when the other end of the gate is dropped.
        let pass = move |value: Value| {
            if value.first().and_then(|tensor| tensor.as_i64()) == Some(9) {
                let _ = gate.lock().recv();
            }
            Ok(value)
        };
        // The lease outlasts the test.
        let patient = |config: &mut WorkerConfig| config.lease = Duration::from_secs(3600);
        let functions = vec![passing(pass)];
        let mut cluster =
            Cluster::start_with(Mechanism::Quic, functions, &EndpointConfig::default(), patient);
        let dataset = Dataset::range(0, 10, 1).map_declared("pass", Params::none(), number());
        let mut reader = cluster.read(dataset, Policy::Off, MaxOutstanding::Elements(10));
        assert_eq!(take(&mut reader, 9).len(), 9);
        cluster.end_dispatcher();
        drop(open);
        assert_eq!(take(&mut reader, 1).len(), 1);
        let worker = cluster.workers.pop().expect("there is one");
        // The task has told its clients about its end, so its report to the dispatcher has begun.
        eventually("a settled task", &true, || worker.server().is_settled(TaskId(1)));
        worker.stop().expect("a clean exit");
    });
}

/// Registers the function `pass`, which returns the result of `call`.
fn passing(call: impl Fn(Value) -> Result<Value, BoxError> + Send + Sync + 'static) -> Functions {
    let call: MapCall = Arc::new(call);
    Functions::new().with_map("pass", move |_, input| {
        Ok(PreparedMap {
            output: input.clone(),
            call: call.clone(),
        })
    })
}

#[test]
fn without_a_dispatcher_everybody_gives_up_eventually() {
    watched("no dispatcher", || {
        let (key, _) = fresh_key();
        // The port is bound, so that no other process answers there.
        let silent = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let address = silent.local_addr().expect("bound").to_string();
        let session = impatient();
        let since = Instant::now();
        let config = ServiceConfig {
            session: session.clone(),
            ..ServiceConfig::default()
        };
        let error = Service::connect(&key, &address, config)
            .expect_err("nobody there")
            .to_string();
        assert!(error.contains(&address), "{error}");
        let config = WorkerConfig {
            session,
            advertise: Some("127.0.0.1:9".to_owned()),
            ..WorkerConfig::new(&address)
        };
        let local = config.local.clone();
        let error = Worker::start(&key, config).expect_err("nobody there").to_string();
        assert!(error.contains(&address), "{error}");
        assert!(
            local.find("127.0.0.1:9").is_none(),
            "readers find no worker that did not start"
        );
        assert!(
            since.elapsed() >= 2 * PATIENCE,
            "gave up after {:?}",
            since.elapsed()
        );
    });
}

#[test]
fn a_wrong_key_differs_from_no_dispatcher() {
    watched("wrong key", || {
        let cluster = Cluster::plain(Mechanism::Quic, 0);
        let config = ServiceConfig {
            session: impatient(),
            ..ServiceConfig::default()
        };
        let error = Service::connect(&fresh_key().0, &cluster.address, config)
            .expect_err("another key")
            .to_string();
        assert!(
            error.contains(&cluster.address) && error.contains("key"),
            "{error}"
        );
        assert!(cluster.service().status().is_ok(), "others are served");
    });
}

#[test]
fn a_read_key_may_not_register() {
    watched("read role", || {
        let cluster = Cluster::plain(Mechanism::Quic, 0);
        let role_key = ClusterKey::from_text(&cluster.key_text)
            .expect("a key")
            .role_key(Role::Read);
        let key = KeySource::from_setting(&role_key.to_text())
            .load()
            .expect("a key");
        let reader = Service::connect(&key, &cluster.address, ServiceConfig::default()).expect("may come in");
        let error = reader
            .register(Dataset::range(0, 1, 1), None)
            .expect_err("may not register")
            .to_string();
        assert!(
            error.contains("permission denied") && error.contains("`read`"),
            "{error}"
        );
        assert!(reader.status().is_ok(), "may look");
    });
}

/// The timeout of processes that must give up soon.
const PATIENCE: Duration = Duration::from_millis(500);

fn impatient() -> SessionConfig {
    SessionConfig {
        connect_deadline: PATIENCE,
        attempt_deadline: PATIENCE / 2,
        ..SessionConfig::default()
    }
}

/// Reads up to `elements` elements.
fn take(reader: &mut Reader, elements: usize) -> Vec<i64> {
    let elements = (0..elements).map_while(|_| next_or_lost(reader));
    elements.flat_map(|element| numbers(&element)).collect()
}
