//! Tests of waiting: a wait is reported while it lasts, is counted in the statistics, and is named in the
//! error when it ends.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use millstream::client::{MaxOutstanding, ReadError, Reader, ReaderConfig};
use millstream::control::Policy;
use millstream::link::{ClusterKey, EndpointConfig};
use millstream::pipeline::exec::Functions;
use millstream::pipeline::graph::Dataset;

use crate::support::cluster::Cluster;
use crate::support::links::Mechanism;
use crate::support::process::{Process, Running, finish, millstream};
use crate::support::{eventually, watched};

fn fresh_key() -> String {
    ClusterKey::generate().expect("randomness").to_text()
}

/// Returns a reader of an endless range that gives up a worker after `worker_give_up`.
fn endless(cluster: &Cluster, worker_give_up: Duration) -> Reader {
    let config = ReaderConfig {
        max_outstanding: MaxOutstanding::Elements(4),
        worker_give_up,
        ..ReaderConfig::default()
    };
    cluster.read_with(Dataset::range(0, 1 << 40, 1), Policy::Off, &config)
}

#[test]
fn readers_beyond_a_workers_quota_wait_for_room() {
    watched("quota", || {
        let endpoint = EndpointConfig {
            connections_per_peer_max: 2,
            ..EndpointConfig::default()
        };
        let cluster = Cluster::start_with(Mechanism::Quic, vec![Functions::new()], &endpoint, |_| {});
        let mut held: Vec<Reader> = (0..2)
            .map(|_| endless(&cluster, Duration::from_secs(3600)))
            .collect();
        for reader in &mut held {
            reader.next_element().expect("it reads").expect("an element");
        }
        let mut hasty = endless(&cluster, Duration::ZERO);
        let error = hasty.next_element().expect_err("there is no room");
        assert!(matches!(error, ReadError::WorkerFull { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("connections_per_peer_max"), "{text}");
        let mut patient = endless(&cluster, Duration::from_secs(3600));
        assert!(patient.wait_element(Duration::from_millis(100)).is_pending());
        held.clear();
        patient
            .next_element()
            .expect("there is room")
            .expect("an element");
    });
}

/// Starts a command whose standard error goes to a file, so that the test can read it while the command runs.
fn noting(key: &str, arguments: &[&str], notes: &Path) -> Running {
    let mut command = millstream(key, arguments);
    command.stderr(File::create(notes).expect("a file"));
    Running::start(command)
}

fn said(notes: &Path, what: &str) -> bool {
    std::fs::read_to_string(notes).is_ok_and(|text| text.contains(what))
}

#[test]
fn a_command_without_workers_names_its_wait() {
    watched("no workers", || {
        let (key, directory) = (fresh_key(), tempfile::tempdir().expect("a directory"));
        let dispatcher = Process::start(&key, &["dispatcher", "--bind", "127.0.0.1:0"]);
        let address = dispatcher.address.as_str();
        let notes = directory.path().join("notes");
        let arguments = ["read", "--dispatcher", address, "--range", "10", "--batch", "0"];
        let reading = noting(&key, &arguments, &notes);
        let expected = format!("waiting for workers: none registered at {address}");
        eventually("a notice", &true, || said(&notes, &expected));
        let _worker = Process::start(&key, &["worker", "--dispatcher", address]);
        let finished = reading.finish();
        assert!(finished.status.success(), "{finished:?}");
        assert!(finished.stdout.contains("epoch 0: 10 elements"), "{finished:?}");
        assert!(!finished.stdout.contains("network"), "{finished:?}");
    });
}

#[test]
fn a_vanished_dispatcher_is_waited_for() {
    watched("a dispatcher that goes", || {
        let (key, directory) = (fresh_key(), tempfile::tempdir().expect("a directory"));
        let dispatcher = Process::start(&key, &["dispatcher", "--bind", "127.0.0.1:0"]);
        let address = dispatcher.address.clone();
        let notes = directory.path().join("notes");
        let arguments = [
            "read",
            "--dispatcher",
            &address,
            "--range",
            "10",
            "--dispatcher-timeout-s",
            "4",
        ];
        let reading = noting(&key, &arguments, &notes);
        eventually("a notice", &true, || said(&notes, "waiting for workers"));
        drop(dispatcher);
        let finished = reading.finish();
        assert_eq!(finished.status.code(), Some(1), "{finished:?}");
        let waiting = format!("waiting for the dispatcher at {address}");
        assert!(said(&notes, &waiting), "{notes:?}");
        let named = format!("the dispatcher at {address} has been out of reach for 4 s");
        assert!(said(&notes, &named), "{:?}", std::fs::read_to_string(&notes));
    });
}

#[test]
fn a_wait_for_nobody_tells_its_whole_time() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = silent.local_addr().expect("bound").to_string();
    for (wait_s, said) in [
        ("1", "within 1.0 s: the first attempt has had no answer yet"),
        (
            "4",
            "within 4 s, in 2 attempts, the last of which failed: no answer from",
        ),
    ] {
        let arguments = [
            "read",
            "--dispatcher",
            &address,
            "--range",
            "1",
            "--wait-s",
            wait_s,
        ];
        let finished = finish(millstream(&fresh_key(), &arguments));
        assert_eq!(finished.status.code(), Some(1), "{finished:?}");
        assert!(finished.stderr.contains(said), "{finished:?}");
    }
}

#[test]
fn a_command_fails_exactly_if_it_lost_elements() {
    const ELEMENTS: u64 = 400_000;
    for (on_lost, fails) in [("raise", true), ("warn", false), ("ignore", false)] {
        watched(on_lost, move || {
            let key = fresh_key();
            let dispatcher = Process::start(
                &key,
                &["dispatcher", "--bind", "127.0.0.1:0", "--liveness-s", "1"],
            );
            let address = dispatcher.address.as_str();
            let worker = || Process::start(&key, &["worker", "--dispatcher", address]);
            let workers = [worker(), worker()];
            let range = ELEMENTS.to_string();
            let arguments = [
                "read",
                "--dispatcher",
                address,
                "--range",
                &range,
                "--batch",
                "0",
                "--split-size",
                "4096",
                "--max-outstanding",
                "16",
                "--on-lost",
                on_lost,
            ];
            let reading = Running::start(millstream(&key, &arguments));
            let leased = || {
                let finished = finish(millstream(
                    &key,
                    &["status", "--dispatcher", address, "--metrics"],
                ));
                !finished.stdout.contains("millstream_splits_leased 0\n")
            };
            eventually("splits leased", &true, leased);
            workers[0].signal("KILL");
            let finished = reading.finish();
            let whole = finished.stdout.contains(&format!("epoch 0: {ELEMENTS} elements"));
            assert_eq!(finished.status.success(), whole || !fails, "{finished:?}");
            let is_named = finished.stderr.contains("lost: split");
            assert_eq!(is_named, !whole && on_lost != "ignore", "{finished:?}");
        });
    }
}

#[cfg(unix)]
#[test]
fn a_key_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (cluster, worker) = (path("cluster.key"), path("worker.key"));
    let run = |arguments: &[&str]| finish(millstream(&fresh_key(), arguments));
    let made = run(&["key", "--generate", "--out", &cluster]);
    assert!(made.status.success() && made.stdout.is_empty(), "{made:?}");
    let made = run(&["key", "--key", &cluster, "--role", "worker", "--out", &worker]);
    assert!(made.status.success(), "{made:?}");
    for file in [&cluster, &worker] {
        let mode = std::fs::metadata(file).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let printed = run(&["key", "--key", &cluster, "--role", "worker"]);
    assert_eq!(
        printed.stdout,
        std::fs::read_to_string(&worker).expect("it is there")
    );
    let refused = run(&["key", "--generate", "--out", &cluster]);
    assert_eq!(refused.status.code(), Some(1), "it would be lost: {refused:?}");
}

#[test]
fn keys_in_arguments_are_refused_without_being_shown() {
    let key = fresh_key();
    for argument in [
        ["status", "--key", &key],
        ["worker", "--key", &key],
        ["key", "--key", &key],
    ] {
        let refused = finish(millstream(&fresh_key(), &argument));
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(refused.stderr.contains("file of mode 0600"), "{refused:?}");
        assert!(
            !refused.stderr.contains(&key) && refused.stdout.is_empty(),
            "{refused:?}"
        );
    }
}
