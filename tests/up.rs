//! Tests of `millstream up`: restarts, limits, draining, and the end of all processes.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use millstream::client::{MaxOutstanding, ReaderConfig};
use millstream::control::{DatasetId, Policy};
use millstream::exactly_once::ExactReader;
use millstream::link::{ClusterKey, KeySource, Role};
use millstream::pipeline::graph::Dataset;
use millstream::{ReadRequest, Service, ServiceConfig};
use tempfile::TempDir;

use crate::support::cluster::numbers;
use crate::support::exact::{next_numbers, read_exactly_once};
use crate::support::mortal::lasting_address;
use crate::support::process::{Finished, Running, finish, millstream, signal};
use crate::support::{eventually, watchdog, watched};

/// The number of elements of a dataset that no test reads to its end.
const ENDLESS: i64 = 1 << 40;

/// The flags of a drain that lasts longer than the watchdog, unless the readers take their elements.
const NEVER: [&str; 2] = ["--drain-deadline-s", "3600"];

/// The flags of a drain that waits for no reader.
const AT_ONCE: [&str; 2] = ["--drain-deadline-s", "0"];

/// A running `millstream up`. Dropping the value kills the command.
struct Up {
    child: Child,
    /// The lines of standard output and standard error.
    lines: Receiver<String>,
    /// The lines that were read so far.
    seen: Vec<String>,
    address: String,
    key: String,
    /// The directory for the temporary files of the command.
    temporary: TempDir,
}

impl Up {
    /// Starts the command with a new key on a free port, and waits until it serves.
    fn start(arguments: &[&str]) -> Self {
        Self::start_with(&new_key(), "127.0.0.1:0", arguments)
    }

    fn start_with(key: &str, bind: &str, arguments: &[&str]) -> Self {
        Self::start_in(&[], key, bind, arguments)
    }

    /// Starts the command with additional environment variables.
    fn start_in(environment: &[(&str, String)], key: &str, bind: &str, arguments: &[&str]) -> Self {
        let all = [&["up", "--bind", bind, "--threads", "1"], arguments].concat();
        let temporary = tempfile::tempdir().expect("a directory");
        let mut command = millstream(key, &all);
        command
            .env("TMPDIR", temporary.path())
            .envs(environment.iter().map(|(name, value)| (name, value)));
        let mut child = command.spawn().expect("the binary starts");
        let (tell, lines) = channel();
        let pipes: [Box<dyn Read + Send>; 2] = [
            Box::new(child.stdout.take().expect("piped")),
            Box::new(child.stderr.take().expect("piped")),
        ];
        for pipe in pipes {
            let tell = tell.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                    let _ = tell.send(line);
                }
            });
        }
        // The receiver then notices the end of the command.
        drop(tell);
        let mut up = Self {
            child,
            lines,
            seen: Vec::new(),
            address: String::new(),
            key: key.to_owned(),
            temporary,
        };
        let line = up.wait_for("serving at millstream://");
        let (_, rest) = line.split_once("://").expect("it was found");
        let words: Vec<&str> = rest.split(' ').collect();
        up.address = words[0].to_owned();
        let workers: usize = words[2].parse().expect("the number of workers");
        // Lines of standard error may arrive later than this line of standard output.
        while up.pids().len() <= workers {
            up.wait_for(": process ");
        }
        up
    }

    /// Waits for a line with this text.
    fn wait_for(&mut self, text: &str) -> String {
        let deadline = Instant::now() + watchdog::WATCHDOG;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|_| panic!("no line with {text:?}, but {:#?}", self.seen));
            self.seen.push(line.clone());
            if line.contains(text) {
                return line;
            }
        }
    }

    /// Returns the process ids of the latest processes by name.
    fn pids(&self) -> BTreeMap<String, u32> {
        let pid = |line: &String| {
            let (name, rest) = line.split_once(": process ")?;
            Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
        };
        self.seen.iter().filter_map(pid).collect()
    }

    /// Kills a process of the service, and waits until its successor serves.
    fn kill_and_await_successor(&mut self, name: &str) {
        self.kill(name);
        self.wait_for(&format!("{name}: process "));
    }

    fn kill(&mut self, name: &str) {
        kill(self.pids()[name]);
        self.wait_for(&format!("{name} ended (signal: 9 (SIGKILL))"));
    }

    /// Starts a process that reads an endless dataset, and stops the process once it reads.
    fn paused_reader(&self) -> Running {
        let endless = ENDLESS.to_string();
        let read = ["read", "--dispatcher", &self.address, "--range", &endless];
        let reader = Running::start(millstream(&self.key, &read));
        let service = self.service();
        eventually("readers", &1, || {
            service.status().expect("a status").counts.clients
        });
        reader.signal("STOP");
        reader
    }

    fn service(&self) -> Service {
        let key = KeySource::from_setting(&self.key).load().expect("a key");
        Service::connect(&key, &self.address, ServiceConfig::default()).expect("it serves")
    }

    /// Waits for the end of the command, and returns its exit status. Fails if the command leaves a temporary
    /// file.
    fn exit_code(&mut self) -> Option<i32> {
        let deadline = Instant::now() + watchdog::WATCHDOG;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().expect("it is a child") {
                while let Ok(line) = self.lines.recv_timeout(watchdog::WATCHDOG) {
                    self.seen.push(line);
                }
                let left: Vec<_> = self.temporary.path().read_dir().expect("it exists").collect();
                assert!(left.is_empty(), "{left:?} is left");
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("the command does not end: {:#?}", self.seen);
    }

    fn has_said(&self, text: &str) -> bool {
        self.first_line(text).is_some()
    }

    /// Returns the position of the first line with this text.
    fn first_line(&self, text: &str) -> Option<usize> {
        self.seen.iter().position(|line| line.contains(text))
    }

    /// Returns the arguments of a process of the service.
    #[cfg(target_os = "linux")]
    fn arguments(&self, name: &str) -> Vec<String> {
        let path = format!("/proc/{}/cmdline", self.pids()[name]);
        let text = std::fs::read_to_string(path).expect("the process runs");
        text.split_terminator('\0').map(str::to_owned).collect()
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // `kill` and `wait` fail only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A trainer in this process that reads an exactly-once job in order, and checks every number.
struct Trainer {
    reader: ExactReader,
    /// The number that comes next.
    expected: i64,
}

impl Trainer {
    fn start(service: &Service) -> Self {
        let dataset = Dataset::range(0, ENDLESS, 1).split_size(4);
        let reader = read_exactly_once(service, dataset, 16);
        Self { reader, expected: 0 }
    }

    /// Takes this many numbers, many more than the reader has in advance.
    fn take(&mut self, count: i64) {
        let end = self.expected + count;
        while self.expected < end {
            for number in next_numbers(&mut self.reader) {
                assert_eq!(number, self.expected, "lost or repeated");
                self.expected += 1;
            }
        }
    }
}

/// Returns the settings of a reader that has few elements in advance.
fn few_elements() -> ReaderConfig {
    ReaderConfig {
        max_outstanding: MaxOutstanding::Elements(16),
        ..ReaderConfig::default()
    }
}

fn new_key() -> String {
    ClusterKey::generate().expect("randomness").to_text()
}

/// Runs a command that fails before it serves.
fn refused(key: &str, arguments: &[&str]) -> Finished {
    let temporary = tempfile::tempdir().expect("a directory");
    let mut command = millstream(key, &[&["up"], arguments].concat());
    command.env("TMPDIR", temporary.path());
    let finished = finish(command);
    assert_eq!(finished.status.code(), Some(1), "{finished:?}");
    finished
}

fn kill(pid: u32) {
    send("KILL", pid);
}

fn send(name: &str, pid: u32) {
    let sent = Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    assert!(
        sent.expect("kill runs").success(),
        "SIG{name} was not sent to {pid}"
    );
}

fn runs(pid: &u32) -> bool {
    let sent = Command::new("kill").args(["-s", "0", &pid.to_string()]).output();
    sent.expect("kill runs").status.success()
}

/// Tests that the variables of settings reach no process of the command: all would open the same admin port.
#[cfg(target_os = "linux")]
#[test]
fn processes_do_not_inherit_settings() {
    watched("settings", || {
        let directory = tempfile::tempdir().unwrap();
        let token = directory.path().join("token");
        std::fs::write(&token, "planted-token-0123456789").unwrap();
        let environment = [
            ("MILLSTREAM_ADMIN", "127.0.0.1:0".to_owned()),
            ("MILLSTREAM_ADMIN_TOKEN_FILE", token.display().to_string()),
        ];
        let up = Up::start_in(&environment, &new_key(), "127.0.0.1:0", &[]);
        let pids = up.pids();
        assert_eq!(pids.len(), 2, "{:?}", up.seen);
        for pid in pids.into_values() {
            let variables = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
            let variables = String::from_utf8_lossy(&variables).into_owned();
            assert!(variables.contains("TMPDIR="), "{variables}");
            assert!(!variables.contains("MILLSTREAM_ADMIN"), "{variables}");
        }
    });
}

#[test]
fn dead_processes_interrupt_no_read() {
    watched("restarts", || {
        let mut up = Up::start(&["--workers", "2"]);
        let service = up.service();
        let mut trainer = Trainer::start(&service);
        trainer.take(1000);
        for name in ["worker 1", "dispatcher", "worker 0"] {
            up.kill_and_await_successor(name);
            trainer.take(1000);
        }
        eventually("living workers", &2, || service.status().unwrap().counts.workers);
    });
}

#[test]
fn work_directories_continue_jobs() {
    watched("a second command", || {
        let (key, address) = (new_key(), lasting_address());
        let records = tempfile::tempdir().unwrap();
        let work_dir = ["--work-dir", records.path().to_str().unwrap()];
        let arguments = [work_dir, AT_ONCE].concat();
        let mut up = Up::start_with(&key, &address, &arguments);
        let service = up.service();
        let id = DatasetId::new("numbers").unwrap();
        service
            .register(Dataset::range(0, 9, 1), Some(id.clone()))
            .unwrap();
        let mut trainer = Trainer::start(&service);
        trainer.take(1000);
        signal(&up.child, "TERM");
        assert_eq!(up.exit_code(), Some(0), "{:#?}", up.seen);
        let mut up = Up::start_with(&key, &address, &arguments);
        trainer.take(1000);
        service.dataset(&id).expect("the records survive the command");
        drop((trainer, service));
        signal(&up.child, "TERM");
        assert_eq!(up.exit_code(), Some(0), "{:#?}", up.seen);
    });
}

#[cfg(target_os = "linux")]
#[test]
fn flags_reach_the_processes() {
    use std::os::unix::fs::PermissionsExt;
    watched("flags", || {
        let files = tempfile::tempdir().unwrap();
        let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
        let (key, revoked) = (path("cluster.key"), path("revoked"));
        std::fs::write(&key, new_key()).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&revoked, "").unwrap();
        let allowed = files.path().to_str().unwrap();
        let common = [
            ["--key", &key],
            ["--revoked", &revoked],
            ["--allow-path", allowed],
        ];
        let token = path("token");
        std::fs::write(&token, "0123456789abcdef").unwrap();
        let admin = [
            ["--admin", "127.0.0.1:0"],
            ["--admin-token-file", &token],
            ["--admin-host", "mill.example"],
        ];
        let common_and_admin = [&common[..], &admin].concat();
        let rest = ["-v", "--drain-deadline-s", "7", "--", "--tag", "gpu"];
        let up = Up::start(&[&common_and_admin.concat()[..], &rest].concat());
        let (dispatcher, worker) = (up.arguments("dispatcher"), up.arguments("worker 0"));
        let has = |arguments: &[String], pair: [&str; 2]| arguments.windows(2).any(|found| found == pair);
        for arguments in [&dispatcher, &worker] {
            let missing = common.iter().find(|pair| !has(arguments, **pair));
            assert_eq!(missing, None, "{arguments:?}");
            assert!(arguments.contains(&"-v".to_owned()), "{arguments:?}");
        }
        let missing = admin.iter().find(|pair| !has(&dispatcher, **pair));
        assert_eq!(missing, None, "{dispatcher:?}");
        assert!(!has(&worker, admin[0]), "{worker:?}");
        let of_worker = [
            ["--dispatcher", &up.address],
            ["--drain-deadline-s", "7"],
            ["--tag", "gpu"],
            ["--threads", "1"],
        ];
        let missing = of_worker.iter().find(|pair| !has(&worker, **pair));
        assert_eq!(missing, None, "{worker:?}");
    });
}

#[test]
fn a_role_key_is_refused() {
    let cluster = ClusterKey::generate().unwrap();
    for role in [Role::Worker, Role::Dispatcher] {
        let key = cluster.role_key(role).to_text();
        let stderr = refused(&key, &["--bind", "127.0.0.1:0"]).stderr;
        let reason = format!("only for the role `{role}`");
        assert!(stderr.contains(&reason), "{stderr}");
        assert!(stderr.contains("name the cluster key with --key"), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "no process starts: {stderr}");
    }
}

#[test]
fn signals_drain_and_leave_no_process() {
    watched("draining", || {
        for name in ["INT", "TERM"] {
            let mut up = Up::start(&["--workers", "2"]);
            let pids = up.pids();
            assert_eq!(pids.len(), 3, "{pids:?}");
            signal(&up.child, name);
            assert_eq!(up.exit_code(), Some(0), "{:#?}", up.seen);
            assert!(
                up.has_said("worker 1: shutting down gracefully"),
                "{:#?}",
                up.seen
            );
            assert!(up.has_said("all processes have ended"), "{:#?}", up.seen);
            assert!(!pids.values().any(runs), "{pids:?}");
        }
    });
}

#[test]
fn draining_delivers_all_begun_elements() {
    watched("a drained reader", || {
        let mut up = Up::start(&NEVER);
        let service = up.service();
        let dataset = Dataset::range(0, ENDLESS, 1).split_size(8);
        let dataset = service.register(dataset, None).unwrap();
        let job = service.job(&ReadRequest::new(dataset, Policy::Dynamic)).unwrap();
        let mut reader = service.read(job, 0, &few_elements()).unwrap();
        let mut seen = numbers(&reader.next_element().unwrap().unwrap());
        signal(&up.child, "TERM");
        up.wait_for("worker 0: shutting down gracefully");
        let ended = up.child.try_wait().unwrap();
        assert!(ended.is_none(), "the reader has not taken its elements");
        let error = loop {
            match reader.next_element() {
                Ok(element) => seen.extend(numbers(&element.expect("the dataset is endless"))),
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("was shut down"), "{error}");
        let lost = &reader.stats().lost_splits;
        assert!(lost.is_empty(), "{lost:?}");
        seen.sort_unstable();
        let whole_splits: Vec<i64> = (0..seen.len() as i64).collect();
        assert_eq!(seen, whole_splits, "lost or repeated");
        assert_eq!(seen.len() % 8, 0, "the last split is delivered completely");
        assert_eq!(up.exit_code(), Some(0), "{:#?}", up.seen);
        assert!(!up.has_said("readers were not told"), "{:#?}", up.seen);
    });
}

#[test]
fn a_second_signal_ends_the_drain() {
    watched("a second signal", || {
        let mut up = Up::start(&[&["--workers", "2"][..], &NEVER].concat());
        let _reader = up.paused_reader();
        let pids = up.pids();
        signal(&up.child, "INT");
        up.wait_for("shutting down gracefully");
        signal(&up.child, "INT");
        assert_eq!(up.exit_code(), Some(0), "{:#?}", up.seen);
        assert!(!pids.values().any(runs), "{pids:?}");
        assert!(!up.has_said("did not end within"), "{:#?}", up.seen);
    });
}

/// The paused reader makes the dispatcher wait, and the stopped dispatcher reacts to nothing.
#[test]
fn a_second_signal_interrupts_the_shutdown() {
    watched("a second signal", || {
        let mut up = Up::start(&AT_ONCE);
        let _reader = up.paused_reader();
        let pids = up.pids();
        signal(&up.child, "TERM");
        up.wait_for("all workers have ended");
        send("STOP", pids["dispatcher"]);
        signal(&up.child, "TERM");
        assert_eq!(up.exit_code(), Some(0), "{:#?}", up.seen);
        assert!(!pids.values().any(runs), "{pids:?}");
        assert!(!up.has_said("did not end within"), "{:#?}", up.seen);
        assert!(!up.has_said("readers were not told"), "{:#?}", up.seen);
    });
}

#[test]
fn a_killed_supervisor_leaves_no_process() {
    watched("a killed supervisor", || {
        let mut up = Up::start(&["--workers", "2"]);
        let pids = up.pids();
        up.child.kill().unwrap();
        up.child.wait().unwrap();
        eventually("processes", &0, || pids.values().filter(|pid| runs(pid)).count());
    });
}

#[test]
fn too_many_deaths_end_the_command() {
    watched("the limit", || {
        let mut up = Up::start(&["--workers", "2", "--restarts-max", "1"]);
        up.kill_and_await_successor("worker 0");
        kill(up.pids()["worker 0"]);
        assert_eq!(up.exit_code(), Some(1));
        let message = "worker 0 ended again (signal: 9 (SIGKILL)) after 1 restarts within 60 s";
        let reason = up.first_line(message);
        assert!(reason.is_some(), "{:#?}", up.seen);
        // The reason comes before the messages of the drain.
        assert!(
            reason < up.first_line("worker 1: shutting down gracefully"),
            "{:#?}",
            up.seen
        );
        assert!(!up.has_said("draining:"), "{:#?}", up.seen);
    });
}

#[test]
fn a_shutdown_ends_the_command() {
    watched("a shutdown", || {
        let mut up = Up::start(&["--workers", "2", "--restarts-max", "0"]);
        let finished = finish(millstream(&up.key, &["shutdown", "--dispatcher", &up.address]));
        assert!(finished.status.success(), "{finished:?}");
        assert_eq!(up.exit_code(), Some(0), "{:#?}", up.seen);
        assert!(up.has_said("the service was shut down"), "{:#?}", up.seen);
        for untrue in [
            "draining",
            "readers were not told",
            "did not end within",
            "all workers have ended",
        ] {
            assert!(!up.has_said(untrue), "{untrue}: {:#?}", up.seen);
        }
    });
}

/// The dispatcher waits for the paused reader, while the workers end at once.
#[test]
fn a_slow_shutdown_restarts_no_worker() {
    watched("a slow shutdown", || {
        let mut up = Up::start(&["--restarts-max", "0"]);
        let _reader = up.paused_reader();
        let finished = finish(millstream(&up.key, &["shutdown", "--dispatcher", &up.address]));
        assert!(finished.status.success(), "{finished:?}");
        assert_eq!(up.exit_code(), Some(0), "{:#?}", up.seen);
        let starts = up.seen.iter().filter(|line| line.contains("worker 0: process "));
        assert_eq!(starts.count(), 1, "{:#?}", up.seen);
    });
}

#[test]
fn processes_that_never_serve_are_not_restarted() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let key = new_key();
    let stderr = refused(&key, &["--bind", &address]).stderr;
    assert!(stderr.contains("dispatcher ended before it served"), "{stderr}");
    let stderr = refused(&key, &["--bind", "127.0.0.1:0", "--", "--no-such-flag"]).stderr;
    assert!(
        stderr.contains("worker 0 ended before it served (exit status: 2)"),
        "{stderr}"
    );
    assert!(
        stderr.contains("worker 0: error: unexpected argument '--no-such-flag'"),
        "{stderr}"
    );
    let stderr = refused(&key, &["--bind", "0.0.0.0:0"]).stderr;
    assert!(stderr.contains("must be an address of this machine"), "{stderr}");
}
