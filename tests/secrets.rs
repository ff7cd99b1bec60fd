//! Tests that logs, arguments, status, audit logs and errors contain no keys and credentials.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use millstream::control::Policy;
use millstream::link::{ClusterKey, Role};
use millstream::pipeline::graph::Dataset;
use millstream::{ReadRequest, Service, ServiceConfig};

use crate::support::cluster::fresh_key;
use crate::support::http::{first_event, free_port, get};
use crate::support::process::{Process, finish, millstream};
use crate::support::{eventually, watched};

/// A text in the form of a cloud credential.
const CREDENTIAL: &str = "planted+credential/of+a+cloud";
/// The token of the admin port.
const TOKEN: &str = "planted-token-0123456789";
/// The signature of a URL.
const SIGNATURE: &str = "planted0signature0of0a0url";

/// Returns texts that would reveal a secret, each with the name of the secret.
fn secrets(key: &ClusterKey) -> Vec<(String, String)> {
    // The first digits identify the secret, and are too long for a random match.
    let digits = |text: &str, part: usize| text.split(':').nth(part).expect("digits")[..24].to_owned();
    let mut secrets = vec![
        ("the cluster key".to_owned(), digits(&key.to_text(), 1)),
        ("a credential".to_owned(), CREDENTIAL.to_owned()),
        ("the token".to_owned(), TOKEN.to_owned()),
        ("a signature".to_owned(), SIGNATURE.to_owned()),
    ];
    for role in Role::ALL {
        let text = key.role_key(role).to_text();
        secrets.push((format!("the key of {role}"), digits(&text, 2)));
    }
    secrets
}

/// Starts a server with the most verbose logging, to a file.
fn server(key: &str, log: &Path, arguments: &[&str]) -> Process {
    let log = log.display().to_string();
    let environment = [
        ("AWS_SECRET_ACCESS_KEY", CREDENTIAL.to_owned()),
        ("RUST_LOG", "trace".to_owned()),
    ];
    Process::start_logging(&environment, key, arguments, &log)
}

/// Returns everything that a process shows to other users of its machine.
fn shown(process: &Process) -> String {
    let read = |name: &str| std::fs::read(format!("/proc/{}/{name}", process.id())).expect("it lives");
    String::from_utf8_lossy(&[read("cmdline"), read("status"), read("limits")].concat()).into_owned()
}

/// Returns everything that the admin ports of a dispatcher and a worker show.
fn shown_by_ports(dispatcher: SocketAddr, worker: SocketAddr) -> Vec<(String, String)> {
    let bearer = format!("authorization: Bearer {TOKEN}\r\n");
    let own = ["/", "/api/v1/history", "/api/v1/events", "/api/v1/settings"];
    let common = ["/livez", "/readyz", "/metrics", "/api/v1/status"];
    let asked = own.map(|path| (dispatcher, path)).into_iter();
    let asked = asked.chain(
        [dispatcher, worker]
            .map(|admin| common.map(|path| (admin, path)))
            .concat(),
    );
    let mut shown: Vec<(String, String)> = asked
        .map(|(admin, path)| {
            let answer = get(admin, path, &bearer);
            assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
            (path.to_owned(), answer)
        })
        .collect();
    let live = [dispatcher, worker].map(|admin| ("/api/v1/live".to_owned(), first_event(admin, &bearer)));
    shown.extend(live);
    shown
}

/// Reads the file of a signed URL, until the dispatcher shows the failure as an event. A reader that leaves
/// at once can end its epoch before the worker has reported the failure.
fn fail_visibly(key: &str, address: &str, dispatcher: SocketAddr) {
    let bearer = format!("authorization: Bearer {TOKEN}\r\n");
    let is_shown = || {
        let arguments = ["read", "--dispatcher", address, "--files", &signed_url()];
        finish(millstream(key, &arguments));
        let events = get(dispatcher, "/api/v1/events", &bearer);
        events.contains("cannot open http://127.0.0.1:9/a.tar?...:")
    };
    eventually("the failure is an event", &true, is_shown);
}

fn signed_url() -> String {
    format!("http://127.0.0.1:9/a.tar?X-Amz-Signature={SIGNATURE}")
}

/// Runs commands with a key of the service and with another key, and returns their output.
fn said_by_commands(keys: [&str; 2], address: &str) -> Vec<(String, String)> {
    let signed = signed_url();
    let asked: [&[&str]; 5] = [
        &["read", "--dispatcher", address, "--files", &signed],
        &["read", "--dispatcher", address, "--range", "100"],
        &["read", "--dispatcher", address, "--files", "s3://absent/x"],
        &["status", "--dispatcher", address, "--json"],
        &["status", "--dispatcher", address, "--metrics"],
    ];
    let mut said = Vec::new();
    for key in keys {
        for arguments in asked {
            let mut command = millstream(key, arguments);
            command
                .env("RUST_LOG", "trace")
                .env("AWS_SECRET_ACCESS_KEY", CREDENTIAL);
            let finished = finish(command);
            said.push((
                format!("{arguments:?}"),
                format!("{}{}", finished.stdout, finished.stderr),
            ));
        }
    }
    said
}

#[test]
fn secrets_appear_nowhere() {
    watched("secrets", || {
        let folder = tempfile::tempdir().expect("a directory");
        let at = |name: &str| folder.path().join(name);
        let (key, other) = (
            ClusterKey::generate().expect("randomness"),
            ClusterKey::generate().expect("randomness"),
        );
        let (text, audit) = (key.to_text(), at("audit").display().to_string());
        std::fs::write(at("token"), format!("{TOKEN}\n")).expect("a file");
        let token = at("token").display().to_string();
        let (admin, worker_admin) = (free_port(), free_port());
        let (bind, worker_bind) = (admin.to_string(), worker_admin.to_string());
        let admin_flags = ["--admin-token-file", &token, "--admin"];
        let dispatcher = ["dispatcher", "--bind", "127.0.0.1:0", "--audit-log", &audit];
        let dispatcher = [&dispatcher[..], &admin_flags, &[&bind]].concat();
        let dispatcher = server(&text, &at("dispatcher.log"), &dispatcher);
        let address = dispatcher.address.clone();
        let worker = ["worker", "--dispatcher", &address];
        let worker = [&worker[..], &admin_flags, &[&worker_bind]].concat();
        let worker = server(&text, &at("worker.log"), &worker);
        let mut said = said_by_commands([&text, &other.to_text()], &address);
        let refused = finish(millstream(&text, &["status", "--key", &text]));
        said.push(("a key as an argument".to_owned(), refused.stderr));
        fail_visibly(&text, &address, admin);
        said.extend(shown_by_ports(admin, worker_admin));
        for (process, name) in [(&dispatcher, "dispatcher"), (&worker, "worker")] {
            let shown = shown(process);
            let core = shown.lines().find(|line| line.starts_with("Max core file size"));
            let limit = core.and_then(|line| line.split_whitespace().nth(4));
            assert_eq!(limit, Some("0"), "a crash of the {name} writes its memory");
            said.push((name.to_owned(), shown));
        }
        drop((worker, dispatcher));
        for name in ["dispatcher.log", "worker.log", "audit"] {
            let log = std::fs::read_to_string(at(name)).expect("a log");
            assert!(log.len() > 100, "{name} says something: {log}");
            said.push((name.to_owned(), log));
        }
        for (what, secret) in secrets(&key).into_iter().chain(secrets(&other)) {
            for (place, text) in &said {
                assert!(!text.contains(&secret), "{what} stands in {place}: {text}");
            }
        }
    });
}

#[test]
fn names_of_jobs_lose_their_secrets() {
    watched("names of jobs", || {
        let (key, text) = fresh_key();
        let admin = free_port();
        let bind = admin.to_string();
        let arguments = ["dispatcher", "--bind", "127.0.0.1:0", "--admin", &bind];
        let dispatcher = Process::start(&text, &arguments);
        let service = Service::connect(&key, &dispatcher.address, ServiceConfig::default());
        let service = service.expect("a connection");
        let id = service
            .register(Dataset::range(0, 9, 1), None)
            .expect("a dataset");
        let request = ReadRequest {
            job_name: Some(format!("https://user:{SIGNATURE}/@host/a?sig={SIGNATURE}")),
            ..ReadRequest::new(id, Policy::Dynamic)
        };
        service.job(&request).expect("a job");
        eventually("an admin port", &true, || TcpStream::connect(admin).is_ok());
        // Answers of a quarter of a second share an observation, which may be older than the job.
        let has_job = || get(admin, "/api/v1/status", "").contains("\"jobs\":1,");
        eventually("the job", &true, has_job);
        let json = ["status", "--dispatcher", &dispatcher.address, "--json"];
        let said = [
            get(admin, "/api/v1/status", ""),
            get(admin, "/api/v1/events", ""),
            first_event(admin, ""),
            finish(millstream(&text, &json)).stdout,
        ];
        for said in said {
            let is_hidden = said.contains("https://...@host/a?...") && !said.contains(SIGNATURE);
            assert!(is_hidden, "{said}");
        }
        service.close();
    });
}
