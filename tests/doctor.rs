//! Tests of `millstream doctor` with real processes: services, keys, limits, and the secrecy of its output.

use std::net::UdpSocket;
use std::process::{Command, Stdio};

use millstream::link::{ClusterKey, Role};
use serde_json::Value;

use crate::support::cluster::Cluster;
use crate::support::links::Mechanism;
use crate::support::process::{Finished, Process, finish, millstream};
use crate::support::{eventually, watched};

/// A text in the form of a cloud credential.
const CREDENTIAL: &str = "planted+credential/of+a+cloud";

fn new_key() -> ClusterKey {
    ClusterKey::generate().expect("randomness")
}

/// Runs the command with `--json`, and returns the findings.
fn findings(key: &str, arguments: &[&str]) -> (Finished, Vec<Value>) {
    let arguments = [&["doctor", "--json"], arguments].concat();
    let finished = finish(millstream(key, &arguments));
    let list = parsed(&finished);
    (finished, list)
}

fn parsed(finished: &Finished) -> Vec<Value> {
    let list: Vec<Value> = serde_json::from_str(&finished.stdout).expect("a list");
    for finding in &list {
        let fields: Vec<&String> = finding.as_object().expect("an object").keys().collect();
        assert_eq!(fields, ["check", "cure", "found", "level"]);
        let is_good = finding["level"] == "ok";
        assert!(
            is_good || !finding["cure"].as_str().expect("text").is_empty(),
            "{finding}"
        );
    }
    list
}

fn of<'f>(findings: &'f [Value], check: &str) -> &'f Value {
    let found = findings.iter().find(|finding| finding["check"] == check);
    found.unwrap_or_else(|| panic!("no check {check} in {findings:#?}"))
}

fn text(finding: &Value) -> &str {
    finding["found"].as_str().expect("text")
}

#[test]
fn a_healthy_service_has_no_problem() {
    watched("healthy service", || {
        let cluster = Cluster::plain(Mechanism::Quic, 2);
        let (finished, all) = findings(&cluster.key_text, &["--dispatcher", &cluster.address]);
        assert!(finished.status.success(), "{finished:?}");
        for check in [
            "key",
            "udp",
            "mtu",
            "dispatcher",
            "clocks",
            "workers",
            "versions",
            "open-files",
        ] {
            assert_eq!(of(&all, check)["level"], "ok", "{:#}", of(&all, check));
        }
        assert!(text(of(&all, "workers")).starts_with("2 alive"), "{all:#?}");
        assert!(text(of(&all, "dispatcher")).contains("connected in"), "{all:#?}");
        assert!(
            text(of(&all, "versions")).contains("the dispatcher and all living workers"),
            "{all:#?}"
        );
        for check in [
            "udp-buffers",
            "shared-memory",
            "dev-shm",
            "memory",
            "python",
            "s3",
            "gs",
            "az",
        ] {
            assert_ne!(of(&all, check)["level"], "problem", "{:#}", of(&all, check));
        }
        let people = ["doctor", "--dispatcher", &cluster.address];
        let people = finish(millstream(&cluster.key_text, &people));
        assert!(people.status.success(), "{people:?}");
        assert!(
            people.stdout.trim_end().ends_with(" 0 problems"),
            "{}",
            people.stdout
        );
    });
}

#[test]
fn a_wrong_key_is_a_problem() {
    watched("wrong key", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let (finished, all) = findings(&new_key().to_text(), &["--dispatcher", &cluster.address]);
        assert_eq!(finished.status.code(), Some(1), "{finished:?}");
        let dispatcher = of(&all, "dispatcher");
        assert_eq!(dispatcher["level"], "problem");
        let cure = dispatcher["cure"].as_str().expect("text");
        assert!(cure.contains("fingerprints"), "{dispatcher:#}");
        assert_eq!(of(&all, "key")["level"], "ok");
        assert!(
            finished.stderr.contains("one check found a problem"),
            "{finished:?}"
        );
    });
}

#[test]
fn keys_of_each_role_are_examined() {
    watched("role keys", || {
        let key = new_key();
        let dispatcher = Process::start(&key.to_text(), &["dispatcher", "--bind", "127.0.0.1:0"]);
        for role in Role::ALL {
            let text_of_key = key.role_key(role).to_text();
            let (_, all) = findings(&text_of_key, &["--dispatcher", &dispatcher.address]);
            let found = text(of(&all, "key"));
            assert!(found.contains(&format!("`{role}`")), "{found}");
            assert_ne!(of(&all, "dispatcher")["level"], "problem", "{role}: {all:#?}");
        }
    });
}

#[test]
fn a_missing_dispatcher_is_a_problem_if_named() {
    watched("missing dispatcher", || {
        // The socket never answers.
        let silent = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let address = silent.local_addr().expect("bound").to_string();
        let (finished, all) = findings(&new_key().to_text(), &["--dispatcher", &address]);
        assert_eq!(finished.status.code(), Some(1), "{finished:?}");
        let dispatcher = of(&all, "dispatcher");
        assert_eq!(dispatcher["level"], "problem");
        assert!(text(dispatcher).contains(&address), "{dispatcher:#}");
    });
}

#[test]
fn a_dead_worker_is_named() {
    watched("dead worker", || {
        let cluster = Cluster::plain(Mechanism::Quic, 1);
        let worker = Process::worker(&cluster);
        let address = worker.address.clone();
        worker.signal("KILL");
        eventually("dead workers", &1, || cluster.dead_workers());
        let (finished, all) = findings(&cluster.key_text, &["--dispatcher", &cluster.address]);
        assert!(finished.status.success(), "{finished:?}");
        let workers = of(&all, "workers");
        assert_eq!(workers["level"], "warning", "{workers:#}");
        assert!(text(workers).contains(&address), "{workers:#}");
    });
}

#[test]
fn a_low_limit_of_files_is_a_problem() {
    watched("low limit", || {
        let mut command = Command::new("sh");
        let program = env!("CARGO_BIN_EXE_millstream");
        command
            .args(["-c", "ulimit -n 64 && exec \"$0\" doctor --json", program])
            .env("MILLSTREAM_KEY", new_key().to_text())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let finished = finish(command);
        assert_eq!(finished.status.code(), Some(1), "{finished:?}");
        let all = parsed(&finished);
        let files = of(&all, "open-files");
        assert_eq!(files["level"], "problem");
        assert!(text(files).contains("the limit is 64"), "{files:#}");
        // Without --dispatcher, a machine without a service has no problem.
        assert_ne!(of(&all, "dispatcher")["level"], "problem", "{all:#?}");
    });
}

#[test]
fn a_worker_needs_its_python_package() {
    watched("package", || {
        let folder = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(folder.path().join("millstream")).expect("a directory");
        let module = folder.path().join("millstream/__init__.py");
        let python = |source: &str| {
            std::fs::write(&module, source).expect("a module");
            let mut command = millstream(&new_key().to_text(), &["doctor", "--json"]);
            command
                .env("PYTHONPATH", folder.path())
                .env("PYTHONDONTWRITEBYTECODE", "1");
            let all = parsed(&finish(command));
            of(&all, "python").clone()
        };
        let version = env!("CARGO_PKG_VERSION");
        let good = python(&format!("__version__ = '{version}'"));
        assert_eq!(good["level"], "ok", "{good:#}");
        for (source, said) in [
            ("__version__ = '0.0.7'", "with millstream 0.0.7"),
            ("import nothing_of_that_name", "ModuleNotFoundError"),
            ("import os; os._exit(3)", "the import ended the interpreter"),
            (
                "import time; time.sleep(3600)",
                "did not import millstream within",
            ),
        ] {
            let finding = python(source);
            assert_eq!(finding["level"], "warning", "{finding:#}");
            assert!(text(&finding).contains(said), "{finding:#}");
        }
    });
}

#[test]
fn the_output_contains_no_secret() {
    watched("secrets", || {
        let (key, folder) = (new_key(), tempfile::tempdir().expect("a directory"));
        let file = folder.path().join("cluster.key");
        let digits = key.to_text().split(':').nth(1).expect("digits")[..24].to_owned();
        let dispatcher = Process::start(&key.to_text(), &["dispatcher", "--bind", "127.0.0.1:0"]);
        std::fs::write(&file, key.to_text()).expect("a file");
        let path = file.display().to_string();
        let run = |key: &str, arguments: &[&str]| {
            let mut command = millstream(key, arguments);
            for name in [
                "AWS_ACCESS_KEY_ID",
                "AWS_SECRET_ACCESS_KEY",
                "AZURE_STORAGE_ACCOUNT_KEY",
                "GOOGLE_SERVICE_ACCOUNT_KEY",
            ] {
                command.env(name, CREDENTIAL);
            }
            command.env("RUST_LOG", "debug");
            let finished = finish(command);
            let output = format!("{}{}", finished.stdout, finished.stderr);
            assert!(
                !output.contains(&digits) && !output.contains(CREDENTIAL),
                "{output}"
            );
            finished
        };
        let named = ["doctor", "--dispatcher", &dispatcher.address];
        let good = run(&key.to_text(), &named);
        assert!(good.stdout.contains("AWS_SECRET_ACCESS_KEY"), "{good:?}");
        run(&key.to_text(), &["doctor", "--json"]);
        // The file's mode is that of the umask, which lets other users read the file.
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("a mode");
        let open = run("", &["doctor", "--key", &path]);
        assert!(open.stdout.contains("chmod 600"), "{open:?}");
        let argument = run("", &["doctor", "--key", &key.to_text()]);
        assert_eq!(argument.status.code(), Some(1), "{argument:?}");
    });
}

#[test]
fn a_users_key_is_not_created() {
    watched("no key", || {
        let home = tempfile::tempdir().expect("a directory");
        let mut command = millstream("", &["doctor", "--json"]);
        command.env("XDG_DATA_HOME", home.path());
        let finished = finish(command);
        let all = parsed(&finished);
        assert_eq!(of(&all, "key")["level"], "warning", "{all:#?}");
        let left = std::fs::read_dir(home.path()).expect("a directory").count();
        assert_eq!(left, 0, "the command must change nothing");
    });
}
