//! Processes that die, stall or were never there; keys and addresses that do not fit.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream::client::{MaxOutstanding, ReadError, Reader};
use millstream::control::rpc::SessionConfig;
use millstream::control::{DispatcherConfig, Policy};
use millstream::link::{ClusterKey, KeySource, LoadedKey, Role};
use millstream::pipeline::exec::{Functions, PreparedMap};
use millstream::pipeline::graph::{Dataset, Params, Units};
use millstream::{Dispatcher, Service, ServiceConfig, Worker, WorkerConfig};

use crate::support::cluster::{Cluster, LIVENESS, fresh_key, number, numbers};
use crate::support::links::Mechanism;
use crate::support::process::Process;
use crate::support::{eventually, watched};

/// Enough that a reading is in full swing when a worker dies.
const ELEMENTS: i64 = 60_000;

#[test]
fn what_a_killed_worker_had_is_read_from_the_others_or_reported_lost() {
    watched("SIGKILL", || a_worker_ends_in_the_middle("KILL"));
}

#[test]
fn a_stopped_worker_is_written_off_within_the_liveness_limit() {
    watched("SIGSTOP", || a_worker_ends_in_the_middle("STOP"));
}

fn a_worker_ends_in_the_middle(signal: &str) {
    let cluster = Cluster::plain(Mechanism::Quic, 0);
    let workers: Vec<Process> = (0..3).map(|_| Process::worker(&cluster)).collect();
    let mut reader = cluster.read(
        Dataset::range(0, ELEMENTS, 1),
        Policy::Dynamic,
        MaxOutstanding::Elements(300),
    );
    let mut seen = take(&mut reader, ELEMENTS as usize / 4);
    workers[0].signal(signal);
    let signalled = Instant::now();
    let dead = || {
        cluster
            .service()
            .status()
            .expect("a status")
            .workers
            .iter()
            .filter(|w| w.dead.is_some())
            .count()
    };
    eventually("workers written off", &1, dead);
    assert!(
        signalled.elapsed() < 2 * LIVENESS,
        "{:?} passed",
        signalled.elapsed()
    );
    seen.extend(take(&mut reader, usize::MAX));
    let distinct: BTreeSet<i64> = seen.iter().copied().collect();
    assert_eq!(distinct.len(), seen.len(), "a number came twice");
    let units = Units::of(ELEMENTS as u64);
    let lost = reader.stats().lost_splits;
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
fn when_all_workers_are_killed_the_error_names_them() {
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
        let killed = Instant::now();
        let error = loop {
            match reader.next_element() {
                Ok(element) => assert!(element.is_some(), "ended as if it were complete"),
                Err(error) => break error,
            }
        };
        assert!(killed.elapsed() < 8 * LIVENESS, "{:?} passed", killed.elapsed());
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
fn a_worker_that_is_dropped_leaves_no_computation_behind() {
    watched("dropped worker", || {
        let held = Arc::new(());
        let holder = held.clone();
        let functions = Functions::new().with_map("pass", move |_, input| {
            let held = holder.clone();
            let call = move |value| {
                let _held = &held;
                Ok(value)
            };
            Ok(PreparedMap {
                output: input.clone(),
                call: Arc::new(call),
            })
        });
        let mut cluster = Cluster::start(Mechanism::Quic, vec![functions]);
        let dataset = Dataset::range(0, 1 << 40, 1).map_declared("pass", Params::none(), number());
        let mut reader = cluster.read(dataset, Policy::Off, MaxOutstanding::Elements(10));
        take(&mut reader, 100);
        drop(cluster.workers.pop());
        // All that is left is the test's own.
        eventually("holders", &1, || Arc::strong_count(&held));
    });
}

#[test]
fn without_a_dispatcher_everybody_waits_and_gives_up_naming_its_address() {
    watched("no dispatcher", || {
        let (key, _) = fresh_key();
        // Bound, so that nobody else answers there.
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
            ..WorkerConfig::new(&address)
        };
        let error = Worker::start(&key, config).expect_err("nobody there").to_string();
        assert!(error.contains(&address), "{error}");
        assert!(
            since.elapsed() >= 2 * PATIENCE,
            "gave up after {:?}",
            since.elapsed()
        );
    });
}

#[test]
fn a_port_in_use_is_named() {
    watched("port in use", || {
        let taken = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        let address = taken.local_addr().expect("bound");
        let error = dispatcher(&fresh_key().0, address).expect_err("the port is taken");
        assert!(
            error.contains(&address.port().to_string()) && error.contains("in use"),
            "{error}"
        );
    });
}

#[test]
fn nobody_listens_beyond_loopback_with_a_key_that_was_not_given() {
    watched("beyond loopback", || {
        let key = LoadedKey {
            explicitly_given: false,
            ..fresh_key().0
        };
        let beyond = "0.0.0.0:0".parse().expect("an address");
        let error = dispatcher(&key, beyond).expect_err("refused");
        assert!(error.contains("0.0.0.0") && error.contains("key"), "{error}");
    });
}

#[test]
fn a_wrong_key_is_told_from_a_dispatcher_that_is_not_there() {
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
fn who_may_only_read_may_not_register_a_dataset() {
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

/// How long those who cannot wait do.
const PATIENCE: Duration = Duration::from_millis(500);

fn impatient() -> SessionConfig {
    SessionConfig {
        connect_deadline: PATIENCE,
        attempt_deadline: PATIENCE / 2,
        ..SessionConfig::default()
    }
}

fn dispatcher(key: &LoadedKey, bind: std::net::SocketAddr) -> Result<Dispatcher, String> {
    Dispatcher::start(
        key,
        Some(bind),
        DispatcherConfig::default(),
        Arc::new(Functions::new()),
    )
    .map_err(|error| error.to_string())
}

/// So many elements, or all that there are.
fn take(reader: &mut Reader, elements: usize) -> Vec<i64> {
    let elements = reader.by_ref().take(elements);
    elements
        .flat_map(|element| numbers(&element.expect("the reading goes on")))
        .collect()
}
