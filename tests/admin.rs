//! Tests of the admin port of a dispatcher: what operators, Prometheus and attackers see of a running
//! service.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use millstream::client::{MaxOutstanding, ReaderConfig};
use millstream::control::Policy;
use millstream::pipeline::graph::{Dataset, Params};
use millstream::{ReadRequest, Service, ServiceConfig, Worker, WorkerConfig};
use serde_json::Value;

use crate::support::cluster::{fresh_key, number, working};
use crate::support::http::{body, free_port, get};
use crate::support::process::{Process, Running, finish, millstream};
use crate::support::{eventually, watched};

const TOKEN: &str = "planted-token-0123456789";

/// A dispatcher process with an admin port.
struct Shown {
    dispatcher: Process,
    admin: SocketAddr,
}

impl Shown {
    fn start(key: &str, flags: &[&str]) -> Shown {
        let admin = free_port();
        let bind = admin.to_string();
        let arguments = [&["dispatcher", "--bind", "127.0.0.1:0", "--admin", &bind], flags].concat();
        let dispatcher = Process::start(key, &arguments);
        // The port opens right after the line that the process prints.
        eventually("an admin port", &true, || TcpStream::connect(admin).is_ok());
        Shown { dispatcher, admin }
    }

    fn get(&self, path: &str) -> String {
        get(self.admin, path, "")
    }

    fn status(&self) -> Value {
        self.document("/api/v1/status")
    }

    fn document(&self, path: &str) -> Value {
        let answer = self.get(path);
        serde_json::from_str(body(&answer)).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    /// Returns the kinds of the events so far.
    fn kinds(&self) -> Vec<String> {
        let events = self.document("/api/v1/events");
        let events = events["events"].as_array().expect("events");
        events.iter().map(|event| text(&event["kind"])).collect()
    }

    /// Returns the level of the verdict, its sentence and its advice.
    fn verdict(&self) -> (String, String) {
        let verdict = &self.status()["verdict"];
        let text = |name: &str| verdict[name].as_str().unwrap_or_default().to_owned();
        (text("level"), format!("{} {}", text("sentence"), text("advice")))
    }

    /// Waits until the verdict has this level and names each text.
    fn expect_verdict(&self, level: &str, named: &[&str]) {
        let found = || {
            let (is, text) = self.verdict();
            match is == level && named.iter().all(|name| text.contains(name)) {
                true => Ok(()),
                false => Err((is, text)),
            }
        };
        eventually("the verdict", &Ok(()), found);
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn work() -> Dataset {
    Dataset::range(0, i64::MAX, 1).map_declared("work", Params::none(), number())
}

/// Runs a service whose worker takes `work_ms` for an element and whose trainer takes `own_ms`, and calls
/// `look` meanwhile.
fn with_training(shown: &Shown, key: &millstream::link::LoadedKey, times: (u64, u64), look: impl FnOnce()) {
    let (work_ms, own_ms) = times;
    let address = &shown.dispatcher.address;
    let config = WorkerConfig {
        functions: std::sync::Arc::new(working(Duration::from_millis(work_ms))),
        threads: Some(1),
        ..WorkerConfig::new(address)
    };
    let _worker = Worker::start(key, config).expect("a worker");
    let config = ServiceConfig {
        no_shared_memory: true,
        ..ServiceConfig::default()
    };
    let service = Service::connect(key, address, config).expect("a connection");
    let id = service.register(work(), None).expect("a dataset");
    let job = service
        .job(&ReadRequest::new(id, Policy::Dynamic))
        .expect("a job");
    let limits = ReaderConfig {
        max_outstanding: MaxOutstanding::Elements(2),
        ..ReaderConfig::default()
    };
    let mut reader = service.read(job, 0, &limits).expect("a reader");
    let canceller = reader.canceller();
    let reading = thread::spawn(move || {
        while let Some(Ok(_)) = reader.next() {
            thread::sleep(Duration::from_millis(own_ms));
        }
    });
    look();
    canceller.cancel();
    reading.join().expect("no panic");
}

#[test]
fn the_verdict_names_a_slow_stage() {
    watched("slow stage", || {
        let (key, text) = fresh_key();
        let shown = Shown::start(&text, &[]);
        shown.expect_verdict("good", &["No trainer reads", "No worker is ready"]);
        with_training(&shown, &key, (20, 0), || {
            shown.expect_verdict("warning", &["waits for data", "map(work)", "1 of 1 workers busy"]);
            let metrics = shown.get("/metrics");
            for line in [
                "millstream_dispatcher_workers{state=\"alive\"} 1",
                "millstream_dispatcher_leading 1",
            ] {
                assert!(body(&metrics).lines().any(|found| found == line), "{metrics}");
            }
            assert!(
                body(&metrics).contains("millstream_job_stall_ratio{job_id=\""),
                "{metrics}"
            );
            check_with_promtool(body(&metrics));
            let printed = finish(millstream(
                &text,
                &["status", "--dispatcher", &shown.dispatcher.address],
            ));
            assert!(printed.stdout.contains("because stage map(work)"), "{printed:?}");
            let address = &shown.dispatcher.address;
            let drawn = finish(millstream(
                &text,
                &["top", "--once", "160", "--dispatcher", address],
            ));
            for named in [
                "because stage map(work)",
                "Make the dataset faster there",
                "1 Trainers",
                "WAITS",
                "workers: 1",
            ] {
                assert!(drawn.stdout.contains(named), "{named}: {drawn:?}");
            }
            let refused = finish(millstream(&text, &["top", "--dispatcher", address]));
            assert!(
                refused
                    .stderr
                    .contains("top draws on a terminal: use `millstream status`"),
                "{refused:?}"
            );
        });
    });
}

#[test]
fn history_events_and_stages_are_served() {
    watched("history", || {
        let (key, text_of_key) = fresh_key();
        let shown = Shown::start(&text_of_key, &["--liveness-s", "20"]);
        with_training(&shown, &key, (5, 0), || {
            let job = || {
                let status = shown.status();
                status["iterations"][0]["job"].as_u64()
            };
            let stage = || {
                let status = shown.status();
                let stages = status["iterations"][0]["stages"].as_array().cloned();
                let mut labels = stages.into_iter().flatten().map(|stage| stage["label"].clone());
                labels.any(|label| text(&label).starts_with("map(work)"))
            };
            eventually("the stages of the job", &true, stage);
            let has_stage = || {
                let metrics = shown.get("/metrics");
                let start = "millstream_job_stage_busy_threads{job_id=\"";
                let mut lines = body(&metrics).lines();
                lines.any(|line| line.starts_with(start) && line.contains(",stage=\"1 map\"}"))
            };
            eventually("the metrics of the stage", &true, has_stage);
            let links = || {
                let client = shown.status()["iterations"][0]["clients"][0].clone();
                (client["links"].clone(), client["network_reason"].clone())
            };
            let alone = serde_json::json!({ "memory": 0, "shm": 0, "quic": 1 });
            let reason = "shared memory is switched off for this reader".into();
            eventually("the links of the trainer", &(alone, reason), links);
            let load = || shown.status()["workers"][0]["load"]["memory_bytes"].as_u64() > Some(1 << 20);
            eventually("the memory of the worker", &cfg!(target_os = "linux"), load);
            let job = job().expect("a job");
            let of_job = format!("/api/v1/history?job={job}");
            let rate = || {
                let history = shown.document(&of_job);
                let points = history["points"].as_array().cloned().unwrap_or_default();
                points
                    .iter()
                    .any(|point| point["read_per_s"].as_f64() > Some(0.0))
            };
            eventually("a rate in the history of the job", &true, rate);
            let all = shown.document("/api/v1/history");
            let last = all["points"].as_array().and_then(|points| points.last().cloned());
            assert_eq!(last.expect("a point")["workers"], 1);
            assert_eq!(
                shown.document("/api/v1/history?job=1")["points"],
                serde_json::json!([])
            );
        });
        let kinds = shown.kinds();
        for kind in ["leading", "worker_registered", "job_created", "epoch_begun"] {
            assert!(kinds.iter().any(|found| found == kind), "{kind}: {kinds:?}");
        }
        let settings = shown.document("/api/v1/settings");
        let rows = settings["settings"].as_array().expect("settings");
        let of = |name: &str| rows.iter().find(|row| row["name"] == name).expect("a setting");
        assert_eq!(
            (&of("--liveness-s")["value"], &of("--liveness-s")["origin"]),
            (&"20".into(), &"flag".into())
        );
        assert_eq!(of("--job-gc-timeout-s")["origin"], "default");
    });
}

#[test]
fn the_verdict_names_slow_trainers() {
    watched("slow trainer", || {
        let (key, text) = fresh_key();
        let shown = Shown::start(&text, &[]);
        with_training(&shown, &key, (0, 20), || {
            shown.expect_verdict("good", &["No trainer waits for data", "trainers set the speed"]);
        });
    });
}

#[test]
fn the_verdict_names_dead_workers() {
    watched("dead worker", || {
        let (_, text) = fresh_key();
        let shown = Shown::start(&text, &["--liveness-s", "1"]);
        let worker = Process::start(&text, &["worker", "--dispatcher", &shown.dispatcher.address]);
        shown.expect_verdict("good", &["1 worker is ready"]);
        worker.signal("KILL");
        shown.expect_verdict("warning", &[&worker.address, "is dead"]);
        assert_eq!(shown.kinds(), ["leading", "worker_registered", "worker_given_up"]);
        let metrics = shown.get("/metrics");
        assert!(
            metrics.contains("millstream_dispatcher_workers{state=\"dead\"} 1"),
            "{metrics}"
        );
    });
}

#[test]
fn a_worker_shows_its_links() {
    watched("worker", || {
        let (_, text) = fresh_key();
        let dispatcher = Process::start(&text, &["dispatcher", "--bind", "127.0.0.1:0"]);
        let admin = free_port();
        let bind = admin.to_string();
        let arguments = ["worker", "--dispatcher", &dispatcher.address, "--admin", &bind];
        let worker = Process::start(&text, &arguments);
        eventually("an admin port", &true, || TcpStream::connect(admin).is_ok());
        assert!(get(admin, "/readyz", "").starts_with("HTTP/1.1 200"));
        let range = [
            "read",
            "--dispatcher",
            &dispatcher.address,
            "--range",
            "1000000000000",
        ];
        let reading = Running::start(millstream(&text, &range));
        let shown = || {
            let answer = get(admin, "/api/v1/status", "");
            let status: Value = serde_json::from_str(body(&answer)).expect("JSON");
            let links = status["links"].as_array().map_or(0, Vec::len);
            (links, status["elements"].as_u64() > Some(0))
        };
        eventually("a link and its elements", &(1, true), shown);
        let metrics = get(admin, "/metrics", "");
        let is_linked = |line: &str| line.starts_with("millstream_worker_links{") && line.ends_with(" 1");
        assert!(body(&metrics).lines().any(is_linked), "{metrics}");
        check_with_promtool(body(&metrics));
        // A reader that does not read keeps the worker from ending.
        reading.signal("STOP");
        worker.signal("TERM");
        let not_ready = || {
            let ready = get(admin, "/readyz", "");
            ready.starts_with("HTTP/1.1 503") && ready.contains("shuts down")
        };
        eventually("a worker that is not ready", &true, not_ready);
        reading.signal("CONT");
    });
}

#[test]
fn the_verdict_names_wrong_keys() {
    watched("wrong key", || {
        let (_, text) = fresh_key();
        let shown = Shown::start(&text, &[]);
        shown.expect_verdict("good", &[]);
        let (_, other) = fresh_key();
        let refused = finish(millstream(
            &other,
            &["status", "--dispatcher", &shown.dispatcher.address],
        ));
        assert!(!refused.status.success());
        shown.expect_verdict(
            "warning",
            &["refused in the last minute", "wrong key", "key --public"],
        );
    });
}

#[test]
fn pages_and_probes_need_no_token() {
    watched("token", || {
        let (_, text) = fresh_key();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        std::fs::write(&path, TOKEN).expect("a file");
        let shown = Shown::start(&text, &["--admin-token-file", path.to_str().expect("a name")]);
        for (open, named) in [
            ("/", "<h1>Millstream</h1>"),
            ("/dashboard.js", "api/v1/live"),
            ("/pages.js", "api/v1/history"),
            ("/charts.js", "viewBox"),
            ("/elements.js", "ROWS_MAX"),
            ("/dashboard.css", "prefers-color-scheme"),
            ("/livez", "ok"),
            ("/readyz", "ok"),
        ] {
            let answer = shown.get(open);
            assert!(
                answer.starts_with("HTTP/1.1 200") && answer.contains(named),
                "{open}: {answer}"
            );
        }
        for closed in [
            "/metrics",
            "/api/v1/status",
            "/api/v1/live",
            "/api/v1/history",
            "/api/v1/events",
            "/api/v1/settings",
        ] {
            assert!(shown.get(closed).starts_with("HTTP/1.1 401"), "{closed}");
        }
        let right = format!("authorization: Bearer {TOKEN}\r\n");
        let status = get(shown.admin, "/api/v1/status", &right);
        assert!(status.starts_with("HTTP/1.1 200"), "{status}");
        // No answer contains a secret of the process.
        let metrics = get(shown.admin, "/metrics", &right);
        for answer in [&status, &metrics, &shown.get("/")] {
            assert!(!answer.contains(TOKEN) && !answer.contains(&text), "{answer}");
        }
    });
}

/// An overlay of Kubernetes may add an address to the flags of another one.
#[test]
fn the_last_admin_address_counts() {
    watched("two admin addresses", || {
        let (_, text) = fresh_key();
        let (unused, admin) = (free_port().to_string(), free_port());
        let addresses = ["--admin", &unused, "--admin", &admin.to_string()];
        let _dispatcher = Process::start(
            &text,
            &[&["dispatcher", "--bind", "127.0.0.1:0"], &addresses[..]].concat(),
        );
        eventually("the last admin port", &true, || TcpStream::connect(admin).is_ok());
        assert!(TcpStream::connect(unused).is_err());
    });
}

#[test]
fn unsafe_settings_are_refused_with_the_cure() {
    watched("unsafe settings", || {
        let (_, text) = fresh_key();
        for (flags, named) in [
            (vec!["--admin", "0.0.0.0:0"], "--admin-token-file"),
            (
                vec!["--admin", "127.0.0.1:0", "--admin-token-file", "/nowhere/token"],
                "/nowhere/token",
            ),
        ] {
            let arguments = [vec!["dispatcher", "--bind", "127.0.0.1:0"], flags].concat();
            let refused = finish(millstream(&text, &arguments));
            assert!(
                !refused.status.success() && refused.stderr.contains(named),
                "{refused:?}"
            );
        }
    });
}

#[test]
fn every_message_in_json_is_an_object() {
    watched("JSON", || {
        let (_, text) = fresh_key();
        let arguments = [
            "-v",
            "--log-format",
            "json",
            "dispatcher",
            "--bind",
            "127.0.0.1:0",
            "--until-stdin-closes",
        ];
        let admin = ["--admin", "127.0.0.1:0"];
        let ended = finish(millstream(&text, &[&arguments[..], &admin].concat()));
        let failed = finish(millstream(
            &text,
            &["--log-format", "json", "status", "--dispatcher", "127.0.0.1:9"],
        ));
        for (finished, named) in [(ended, "admin port at"), (failed, "millstream: ")] {
            let lines: Vec<Value> = finished
                .stderr
                .lines()
                .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
                .collect();
            let is_named = |line: &Value| {
                line["fields"]["message"]
                    .as_str()
                    .is_some_and(|text| text.contains(named))
            };
            assert!(lines.iter().any(is_named), "{lines:?}");
            assert!(
                lines
                    .iter()
                    .all(|line| line["level"].is_string() && line["target"].is_string())
            );
        }
    });
}

/// Checks metrics with promtool, which is a part of Prometheus, if it is installed.
fn check_with_promtool(metrics: &str) {
    let mut command = std::process::Command::new("promtool");
    command
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        return;
    };
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(metrics.as_bytes()).expect("it reads");
    drop(stdin);
    let checked = child.wait_with_output().expect("it ends");
    let said =
        String::from_utf8_lossy(&checked.stderr).into_owned() + &String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success() && said.is_empty(), "{said}\n{metrics}");
}
