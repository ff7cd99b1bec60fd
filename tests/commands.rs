//! Tests of the program as a user runs it: processes, flags, exit codes and output.

use std::collections::BTreeMap;
use std::net::UdpSocket;
use std::thread;
use std::time::Duration;

use millstream::client::ReaderConfig;
use millstream::control::Policy;
use millstream::link::{ClusterKey, KeySource, Role};
use millstream::pipeline::graph::Dataset;
use millstream::{GiveUp, ReadRequest, Service, ServiceConfig, ServiceError};

use crate::support::process::{Process, Running, finish, millstream};
use crate::support::{eventually, watched};

/// Flags that keep a dispatcher from declaring a silent process dead during a test.
const PATIENT: [&str; 2] = ["--liveness-s", "3600"];

/// The time in which a request leaves a process, even on a busy machine.
const REQUEST_TIME: Duration = Duration::from_millis(300);

fn fresh_key() -> String {
    ClusterKey::generate().expect("randomness").to_text()
}

fn dispatcher(key: &str) -> Process {
    Process::start(
        key,
        &[&["dispatcher", "--bind", "127.0.0.1:0"], PATIENT.as_slice()].concat(),
    )
}

#[test]
fn the_demo_sees_every_picture_once_an_epoch() {
    let directory = tempfile::tempdir().unwrap();
    let keys = directory.path().join("keys");
    let arguments = [
        "demo",
        "--epochs",
        "2",
        "--batch",
        "5",
        "--dump-keys",
        keys.to_str().unwrap(),
    ];
    let finished = finish(millstream(&fresh_key(), &arguments));
    assert!(finished.status.success(), "{finished:?}");
    assert!(
        finished
            .stdout
            .contains("112 pictures was seen exactly once in each of 2 epochs"),
        "{finished:?}"
    );
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    let keys = std::fs::read_to_string(keys).unwrap();
    keys.lines().for_each(|key| *counts.entry(key).or_default() += 1);
    assert_eq!(counts.len(), 112);
    assert!(counts.values().all(|count| *count == 2), "{counts:?}");
}

#[test]
fn logs_that_no_terminal_shows_have_no_colours() {
    let finished = finish(millstream(
        &fresh_key(),
        &["-vvv", "status", "--dispatcher", "127.0.0.1:1"],
    ));
    assert!(finished.stderr.contains("TRACE"), "{finished:?}");
    assert!(!finished.stderr.contains('\u{1b}'), "{finished:?}");
}

#[test]
fn explain_draws_a_dataset_with_costs() {
    let directory = tempfile::tempdir().unwrap();
    let definition = directory.path().join("dataset");
    let dataset = millstream::pipeline::graph::Dataset::range(0, 1000, 1)
        .prefetch(7)
        .batch(10, true);
    std::fs::write(&definition, dataset.graph().unwrap().to_bytes().unwrap()).unwrap();
    let file = definition.to_str().unwrap();
    let explained = |more: &[&str]| {
        let arguments = [&["explain", "--definition", file], more].concat();
        let finished = finish(millstream(&fresh_key(), &arguments));
        assert!(finished.status.success(), "{finished:?}");
        finished
    };
    assert_eq!(
        explained(&[]).stdout.trim_end(),
        "batch(size: 10, drop_remainder: true)\nprefetch(buffer: 7)\nrange(start: 0, stop: 1000, step: 1)"
    );
    let run = explained(&["--run-s", "60"]);
    let rows: Vec<Vec<&str>> = run
        .stdout
        .lines()
        .map(|line| line.split("  ").collect())
        .collect();
    assert_eq!(rows.len(), 4, "{run:?}");
    let holds = |row: usize, cell: &str| rows[row].iter().any(|found| found.trim() == cell);
    assert!(holds(1, "100") && holds(2, "1000") && holds(3, "1000"), "{run:?}");
    assert!(run.stderr.contains("bottleneck: "), "{run:?}");
    assert!(
        explained(&["--dot"]).stdout.contains("n2 -> n1;"),
        "one arrow for each input"
    );
    let refused = finish(millstream(&fresh_key(), &["explain"]));
    assert!(refused.stderr.contains("--definition FILE"), "{refused:?}");
}

#[test]
fn an_incomplete_demo_names_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let shard = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/photos-0000.tar");
    let mut bytes = std::fs::read(shard).unwrap();
    let picture = bytes.windows(3).position(|window| window == [0xff, 0xd8, 0xff]);
    let picture = picture.unwrap();
    bytes[picture..picture + 64].fill(0);
    std::fs::write(directory.path().join("broken.tar"), bytes).unwrap();
    let data = directory.path().to_str().unwrap();
    let finished = finish(millstream(
        &fresh_key(),
        &["demo", "--epochs", "1", "--data", data],
    ));
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    assert!(finished.stderr.contains("broken.tar"), "{finished:?}");
    assert!(
        finished
            .stderr
            .contains("not every picture was seen exactly once"),
        "{finished:?}"
    );
}

#[test]
fn a_digest_ignores_batches_and_workers() {
    let key = fresh_key();
    let dispatcher = dispatcher(&key);
    let address = dispatcher.address.clone();
    let mut workers = vec![Process::start(&key, &["worker", "--dispatcher", &address])];
    let read = |arguments: &[&str]| {
        let all = [&["read", "--dispatcher", &address, "--range", "5000"], arguments].concat();
        let finished = finish(millstream(&key, &all));
        assert!(finished.status.success(), "{finished:?}");
        let epoch = finished.stdout.lines().next().unwrap();
        let elements = epoch.split(' ').nth(2).unwrap().to_owned();
        (elements, epoch.rsplit(' ').next().unwrap().to_owned())
    };
    let alone = read(&["--batch", "0"]);
    assert_eq!(alone.0, "5000");
    workers.push(Process::start(&key, &["worker", "--dispatcher", &address]));
    for batch in ["1", "7", "64"] {
        assert_eq!(read(&["--batch", batch]), alone, "batches of {batch}");
    }
    let doubled = read(&["--sharding", "off"]);
    assert_eq!(doubled.0, "10000", "every worker yields everything");
    assert_ne!(doubled.1, alone.1);
    assert!(workers.into_iter().all(Process::ends_well));
    assert!(dispatcher.ends_well());
}

#[test]
fn finished_and_interrupted_readers_are_forgotten_at_once() {
    watched("goodbye", || {
        let key = fresh_key();
        let dispatcher = dispatcher(&key);
        let address = dispatcher.address.clone();
        let loaded = KeySource::from_setting(&key).load().unwrap();
        let service = Service::connect(&loaded, &address, ServiceConfig::default()).unwrap();
        let counts = || {
            let counts = service.status().unwrap().counts;
            (counts.workers, counts.clients)
        };
        let mut worker = Process::start(&key, &["worker", "--dispatcher", &address]);
        let read = |range| {
            let arguments = ["read", "--dispatcher", &address, "--range", range];
            Running::start(millstream(&key, &arguments))
        };
        for name in ["INT", "TERM"] {
            let reader = read("1000000000000");
            eventually("workers and readers", &(1, 1), counts);
            reader.signal(name);
            let finished = reader.finish();
            assert_eq!(finished.status.code(), Some(1), "{finished:?}");
            // The reader may have connected by then, and reports the transport first.
            let last = finished.stderr.lines().last();
            assert_eq!(last, Some("millstream: interrupted"), "{finished:?}");
            eventually("workers and readers", &(1, 0), counts);
        }
        let finished = read("10").finish();
        assert!(finished.status.success(), "{finished:?}");
        eventually("workers and readers", &(1, 0), counts);
        worker.signal("INT");
        assert!(worker.has_ended_well());
        eventually("workers and readers", &(0, 0), counts);
    });
}

/// Tests a reader that the dispatcher opens after the caller has cancelled the call.
#[test]
fn readers_opened_after_a_cancelled_call_are_forgotten() {
    watched("cancelled", || {
        let key = fresh_key();
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("audit.jsonl");
        let flags = [
            "dispatcher",
            "--bind",
            "127.0.0.1:0",
            "--audit-log",
            log.to_str().unwrap(),
        ];
        let dispatcher = Process::start(&key, &[flags.as_slice(), &PATIENT].concat());
        let loaded = KeySource::from_setting(&key).load().unwrap();
        let connect = |give_up: &GiveUp| {
            let config = ServiceConfig {
                give_up: give_up.clone(),
                ..ServiceConfig::default()
            };
            Service::connect(&loaded, &dispatcher.address, config).unwrap()
        };
        let observer = connect(&GiveUp::default());
        let give_up = GiveUp::default();
        let service = connect(&give_up);
        let dataset = service.register(Dataset::range(0, 10, 1), None).unwrap();
        let job = service.job(&ReadRequest::new(dataset, Policy::Off)).unwrap();
        dispatcher.signal("STOP");
        let cancel = thread::spawn(move || {
            thread::sleep(REQUEST_TIME);
            give_up.give_up();
        });
        let outcome = service.read(job, 0, &ReaderConfig::default());
        assert!(matches!(outcome, Err(ServiceError::GivenUp)), "{outcome:?}");
        cancel.join().unwrap();
        dispatcher.signal("CONT");
        service.close();
        let is_opened = || std::fs::read_to_string(&log).unwrap().contains("open_iteration");
        eventually("an opened reader", &true, is_opened);
        eventually("readers", &0, || observer.status().unwrap().counts.clients);
    });
}

#[test]
fn signals_end_every_server_well() {
    for name in ["INT", "TERM"] {
        let mut server = dispatcher(&fresh_key());
        server.signal(name);
        assert!(server.has_ended_well());

        // The port is bound, so that no other process answers there.
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap().to_string();
        let waiting = Running::start(millstream(&fresh_key(), &["worker", "--dispatcher", &address]));
        // The worker watches signals before it sends its first packet.
        silent.recv_from(&mut [0; 2048]).unwrap();
        waiting.signal(name);
        let finished = waiting.finish();
        assert!(finished.status.success(), "{finished:?}");
    }
}

#[test]
fn what_cannot_work_is_said_and_fails() {
    let cases: [(&[&str], i32, &str); 11] = [
        (&["demo", "--data", "examples/absent"], 1, "examples/absent"),
        (&["demo", "--workers", "0"], 1, "--workers"),
        (&["read"], 1, "--files PATTERN or --range N"),
        (
            &["worker", "--dispatcher", "nowhere"],
            1,
            "`nowhere` is not `host:port`",
        ),
        (
            &["worker", "--compression", "zip"],
            2,
            "possible values: none, lz4",
        ),
        (&["worker", "--threads", "0"], 1, "--threads 0"),
        (&["dispatcher", "--liveness-s", "0"], 1, "--liveness-s"),
        (&["dispatcher", "--revoked", "/nowhere"], 1, "--revoked"),
        (&["worker", "--isolation", "none"], 1, "`limits` or `strict`"),
        (&["status", "--key", "/absent/key"], 1, "/absent/key"),
        (&["read", "--range", "1", "--files", "x"], 2, "--files"),
    ];
    for (arguments, code, said) in cases {
        let finished = finish(millstream(&fresh_key(), arguments));
        assert_eq!(finished.status.code(), Some(code), "{arguments:?}: {finished:?}");
        assert!(finished.stderr.contains(said), "{arguments:?}: {finished:?}");
        assert_eq!(finished.stdout, "", "{arguments:?}");
    }
}

#[test]
fn a_wrong_key_is_refused_with_advice() {
    let cluster = ClusterKey::generate().unwrap();
    let server = dispatcher(&cluster.to_text());
    let address = server.address.as_str();
    let role = |role| cluster.role_key(role).to_text();
    let stranger = format!(
        "permission denied: {address} does not hold this cluster's key: check that the address is this cluster's \
         dispatcher, and that both sides were given the same key (--key FILE or MILLSTREAM_KEY); this process uses the \
         key in the text of MILLSTREAM_KEY"
    );
    let not_a_worker =
        "this key may only act as `read`, not as `worker`: use the cluster key, or a `worker` key";
    let may_not_register = |role| {
        format!(
            "permission denied: a peer of role `{role}` may not register datasets, since workers run what is in them: \
             use the cluster key, or a `submit` key"
        )
    };
    let read = ["read", "--dispatcher", address, "--range", "10"];
    let worker = ["worker", "--dispatcher", address];
    let status = ["status", "--dispatcher", address];
    fails_saying(&fresh_key(), &status, &stranger);
    fails_saying(&fresh_key(), &worker, &stranger);
    fails_saying(&fresh_key(), &read, &stranger);
    fails_saying(&role(Role::Read), &worker, not_a_worker);
    fails_saying(&role(Role::Read), &read, &may_not_register("read"));
    fails_saying(&role(Role::Worker), &read, &may_not_register("worker"));
    fails_saying(
        &role(Role::Worker),
        &["key", "--role", "read"],
        "a key of role worker cannot be turned into one of role read; ask the holder of the cluster key",
    );
    let finished = finish(millstream(&role(Role::Read), &status));
    assert!(finished.status.success(), "others are served: {finished:?}");
}

#[test]
fn an_unavailable_address_is_refused_with_advice() {
    let key = fresh_key();
    let server = dispatcher(&key);
    let taken = server.address.as_str();
    let port = taken.rsplit(':').next().unwrap();
    let in_use = format!(
        "UDP port {port} is in use on {taken}: stop the process that listens there, or choose another port"
    );
    fails_saying(&key, &["dispatcher", "--bind", taken], &in_use);
    fails_saying(&key, &["worker", "--bind", taken, "--dispatcher", taken], &in_use);

    let home = tempfile::tempdir().unwrap();
    for command in ["dispatcher", "worker"] {
        let mut command = millstream(&key, &[command, "--bind", "0.0.0.0:0"]);
        command
            .env_remove("MILLSTREAM_KEY")
            .env("XDG_DATA_HOME", home.path());
        let finished = finish(command);
        assert_eq!(finished.status.code(), Some(1), "{finished:?}");
        let last = finished.stderr.lines().last();
        let beyond = "millstream: will not listen on 0.0.0.0:0, which other machines can reach, with the key that was made \
             for this machine: give the cluster's key with --key FILE or MILLSTREAM_KEY (`millstream key` prints one to \
             share), or listen on 127.0.0.1";
        assert_eq!(last, Some(beyond));
    }
}

#[test]
fn help_teaches_each_command_by_examples() {
    for command in [
        "dispatcher",
        "worker",
        "read",
        "status",
        "shutdown",
        "key",
        "demo",
    ] {
        let finished = finish(millstream(&fresh_key(), &[command, "--help"]));
        assert!(finished.status.success(), "{finished:?}");
        let example = format!("Examples:\n  millstream {command}");
        assert!(finished.stdout.contains(&example), "{}", finished.stdout);
    }
}

/// Tests the remedies in the messages about key files: each one can be followed.
#[test]
fn key_files_are_kept_and_missing_ones_explained() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cluster.key");
    let path = path.to_str().unwrap();
    let read = ["key", "--public", "--key", path];
    let missing = format!(
        "cannot read key file {path}: No such file or directory (os error 2); correct --key or MILLSTREAM_KEY, or make a key \
         with `millstream key --generate --out FILE`"
    );
    fails_saying(&fresh_key(), &read, &missing);
    let generate = ["key", "--generate", "--out", path];
    assert!(finish(millstream(&fresh_key(), &generate)).status.success());
    assert!(finish(millstream(&fresh_key(), &read)).status.success());
    let kept = format!(
        "--out {path}: the file exists already, and a key is never overwritten: use that key, or choose another name"
    );
    fails_saying(&fresh_key(), &generate, &kept);
}

/// Checks that a command fails with exactly this message.
fn fails_saying(key: &str, arguments: &[&str], said: &str) {
    let finished = finish(millstream(key, arguments));
    assert_eq!(finished.status.code(), Some(1), "{arguments:?}: {finished:?}");
    assert_eq!(finished.stderr, format!("millstream: {said}\n"), "{arguments:?}");
    assert_eq!(finished.stdout, "", "{arguments:?}");
}
