//! The program as a user runs it: processes, flags, exit codes and what is printed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use millstream::link::ClusterKey;

/// The program with a key of its own, so that no test touches the user's.
fn millstream(key: &ClusterKey, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millstream"));
    command
        .args(arguments)
        .env("MILLSTREAM_KEY", key.to_text())
        .stdin(Stdio::null());
    command
}

fn output(key: &ClusterKey, arguments: &[&str]) -> Output {
    millstream(key, arguments).output().expect("the program starts")
}

/// A server that ends when its standard input closes, as it does when this is dropped.
struct Server {
    child: Child,
    /// The line that it printed when it was ready.
    line: String,
}

impl Server {
    fn start(key: &ClusterKey, arguments: &[&str]) -> Self {
        let mut command = millstream(key, arguments);
        command
            .arg("--until-stdin-closes")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is piped"))
            .read_line(&mut line)
            .expect("it prints text");
        Self { child, line }
    }

    /// Closes its standard input and waits. True when it ended well.
    fn ends_well(mut self) -> bool {
        drop(self.child.stdin.take());
        self.child.wait().expect("it is a child").success()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Ended already unless a test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_demo_sees_every_picture_once_an_epoch() {
    let directory = tempfile::tempdir().unwrap();
    let keys = directory.path().join("keys");
    let key = ClusterKey::generate().unwrap();
    let arguments = [
        "demo",
        "--epochs",
        "2",
        "--batch",
        "5",
        "--dump-keys",
        keys.to_str().unwrap(),
    ];
    let output = output(&key, &arguments);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        said.contains("112 pictures was seen exactly once in each of 2 epochs"),
        "{said}"
    );
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    let keys = std::fs::read_to_string(keys).unwrap();
    keys.lines().for_each(|key| *counts.entry(key).or_default() += 1);
    assert_eq!(counts.len(), 112);
    assert!(counts.values().all(|count| *count == 2), "{counts:?}");
}

#[test]
fn a_digest_does_not_depend_on_batches_or_workers() {
    let key = ClusterKey::generate().unwrap();
    let dispatcher = Server::start(&key, &["dispatcher", "--bind", "127.0.0.1:0"]);
    let address = dispatcher.line.trim().rsplit(' ').next().unwrap().to_owned();
    let mut workers = vec![Server::start(&key, &["worker", "--dispatcher", &address])];
    let read = |arguments: &[&str]| {
        let all = [&["read", "--dispatcher", &address, "--range", "5000"], arguments].concat();
        let output = output(&key, &all);
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let said = String::from_utf8(output.stdout).unwrap();
        let epoch = said.lines().next().unwrap();
        let elements = epoch.split(' ').nth(2).unwrap().to_owned();
        (elements, epoch.rsplit(' ').next().unwrap().to_owned())
    };
    let alone = read(&["--batch", "0"]);
    assert_eq!(alone.0, "5000");
    workers.push(Server::start(&key, &["worker", "--dispatcher", &address]));
    for batch in ["1", "7", "64"] {
        assert_eq!(read(&["--batch", batch]), alone, "batches of {batch}");
    }
    let doubled = read(&["--sharding", "off"]);
    assert_eq!(doubled.0, "10000", "every worker yields everything");
    assert_ne!(doubled.1, alone.1);
    assert!(workers.into_iter().all(Server::ends_well));
    assert!(dispatcher.ends_well());
}

#[test]
fn what_cannot_work_is_said_and_fails() {
    let key = ClusterKey::generate().unwrap();
    let cases: [(&[&str], &str); 6] = [
        (&["demo", "--data", "examples/absent"], "examples/absent"),
        (&["demo", "--workers", "0"], "--workers"),
        (&["read"], "--files PATTERN or --range N"),
        (
            &["worker", "--dispatcher", "nowhere"],
            "`nowhere` is not `host:port`",
        ),
        (&["worker", "--compression", "zip"], "`zip`"),
        (&["dispatcher", "--liveness-s", "0"], "--liveness-s"),
    ];
    for (arguments, said) in cases {
        let output = output(&key, arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {errors}");
        assert!(errors.contains(said), "{arguments:?}: {errors}");
    }
}
