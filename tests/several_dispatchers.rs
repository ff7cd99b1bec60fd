//! Tests of several dispatcher processes with a store on a real etcd. Leaders and members of etcd are killed
//! and paused while a trainer reads an exactly-once job.
//!
//! The tests end with a note where etcd is not installed. The variable `MILLSTREAM_KILLS` sets the number of
//! deaths in `a_killed_leader_interrupts_no_reader`.
#![expect(clippy::unwrap_used, reason = "tests and their helpers fail by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use millstream::pipeline::graph::Dataset;
use millstream::{Service, ServiceConfig};
use millstream_testkit::EtcdCluster;
use tempfile::TempDir;

use crate::support::cluster::fresh_key;
use crate::support::exact;
use crate::support::mortal::lasting_address;
use crate::support::process::{Process, finish, millstream};
use crate::support::{eventually, watched, watched_for};

/// The number of dispatchers.
const DISPATCHERS: usize = 3;
/// The longest interruption of the control plane after the death of a leader, on a machine that is busy with
/// other tests. The target on a quiet machine is 3 s for 99 of 100 deaths.
const INTERRUPTION_MAX: Duration = Duration::from_secs(20);
/// The interval between two elements that the trainer takes.
const STEP: Duration = Duration::from_millis(2);

/// Dispatchers with a store on etcd, two workers, and a trainer's connection.
struct Deployment {
    etcd: EtcdCluster,
    key: String,
    dispatchers: Vec<Option<Process>>,
    addresses: Vec<String>,
    service: Arc<Service>,
    _workers: Vec<Process>,
    /// The folder with the dispatchers' logs.
    logs: TempDir,
}

impl Deployment {
    /// Starts a deployment. Returns `None` where etcd is not installed.
    fn start() -> Option<Self> {
        let etcd = EtcdCluster::start(3, &[])?;
        let (loaded, key) = fresh_key();
        let addresses: Vec<String> = (0..DISPATCHERS).map(|_| lasting_address()).collect();
        let logs = tempfile::tempdir().unwrap();
        let start = |address: &String| Some(start_dispatcher(&etcd, &key, address, &logs));
        let dispatchers = addresses.iter().map(start).collect();
        let all = addresses.join(",");
        let service = Service::connect(&loaded, &all, ServiceConfig::default()).unwrap();
        let worker = |_| Process::start(&key, &["worker", "--dispatcher", &all]);
        let workers = (0..2).map(worker).collect();
        Some(Self {
            etcd,
            key,
            dispatchers,
            addresses,
            service: Arc::new(service),
            _workers: workers,
            logs,
        })
    }

    /// Waits until the dispatcher's log has a line with all of these parts.
    fn await_log(&self, index: usize, parts: &[&str]) {
        let path = log_of(&self.logs, &self.addresses[index]);
        eventually(&format!("a line of the log with {parts:?}"), &true, || {
            let text = std::fs::read_to_string(&path).unwrap();
            let has_all = |line: &str| parts.iter().all(|part| line.contains(part));
            text.lines().any(has_all)
        });
    }

    /// Returns the number of the leader, once there is one.
    fn leader(&self) -> usize {
        loop {
            let value = self.etcd.ask(&["get", "test/leader", "--print-value-only"]);
            let leads = |address: &String| value.contains(&format!("\"{address}\""));
            if let Some(index) = self.addresses.iter().position(leads) {
                return index;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn kill(&mut self, index: usize) {
        drop(self.dispatchers[index].take());
    }

    fn revive(&mut self, index: usize) {
        let process = start_dispatcher(&self.etcd, &self.key, &self.addresses[index], &self.logs);
        self.dispatchers[index] = Some(process);
    }

    /// Waits until a request is answered, and returns the time.
    fn answer_time(&self) -> Duration {
        let began = Instant::now();
        self.service.status().unwrap();
        began.elapsed()
    }

    /// Waits until another dispatcher leads.
    fn await_other_leader(&self, old: usize) {
        while self.leader() == old {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn start_dispatcher(etcd: &EtcdCluster, key: &str, address: &str, logs: &TempDir) -> Process {
    let store = format!("etcd://{}/test", etcd.addresses());
    let arguments = ["dispatcher", "--store", &store, "--bind", address];
    let log = log_of(logs, address);
    Process::start_logging(&[], key, &[&arguments[..], &["--liveness-s", "3"]].concat(), &log)
}

fn log_of(logs: &TempDir, address: &str) -> String {
    let name = address.replace(':', "-");
    logs.path().join(name).display().to_string()
}

/// A trainer that reads an exactly-once job in order, and checks every element.
struct Trainer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Duration>>,
}

impl Trainer {
    fn start(service: &Arc<Service>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (service, is_stopped) = (Arc::clone(service), Arc::clone(&stop));
        let thread = thread::spawn(move || read_exactly_once(&service, &is_stopped));
        Self { stop, thread }
    }

    /// Ends the trainer, and returns the times for which it waited for elements, the longest first.
    fn finish(self) -> Vec<Duration> {
        // Relaxed: the thread only has to see the flag at some time.
        self.stop.store(true, Ordering::Relaxed);
        let mut waits = self.thread.join().unwrap();
        waits.sort_unstable_by(|one, other| other.cmp(one));
        waits
    }
}

/// Reads numbers until the flag is set. Checks that each number follows the previous one, so none is lost or
/// repeated.
fn read_exactly_once(service: &Service, stop: &AtomicBool) -> Vec<Duration> {
    const NUMBERS: i64 = 100_000_000;
    let mut reader = exact::read_exactly_once(service, Dataset::range(0, NUMBERS, 1).split_size(4), 64);
    let mut waits = Vec::new();
    let mut expected = 0;
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        let numbers = exact::next_numbers(&mut reader);
        waits.push(began.elapsed());
        for number in numbers {
            assert_eq!(number, expected, "lost or repeated");
            expected += 1;
        }
        thread::sleep(STEP);
    }
    waits
}

fn percentile(sorted: &[Duration], part: f64) -> Duration {
    let at = ((sorted.len() as f64 * part).ceil() as usize).clamp(1, sorted.len()) - 1;
    sorted[at]
}

/// C17.1, C17.5
#[test]
fn a_killed_leader_interrupts_no_reader() {
    let kills: usize = std::env::var("MILLSTREAM_KILLS").map_or(3, |text| text.parse().unwrap());
    let limit = INTERRUPTION_MAX * (kills as u32 + 3);
    watched_for(limit, "killed leaders", move || {
        let Some(mut deployment) = Deployment::start() else {
            return;
        };
        let trainer = Trainer::start(&deployment.service);
        let mut gaps = Vec::new();
        for _ in 0..kills {
            thread::sleep(Duration::from_millis(700));
            let leader = deployment.leader();
            deployment.kill(leader);
            gaps.push(deployment.answer_time());
            deployment.revive(leader);
        }
        let waits = trainer.finish();
        gaps.sort_unstable();
        let line = format!(
            "{kills} deaths of a leader: the control plane answered after {:?} (median), {:?} (99 of 100), {:?} (longest); the \
             trainer took {} elements, none lost or repeated, and waited at most {:?}\n",
            percentile(&gaps, 0.5),
            percentile(&gaps, 0.99),
            gaps[gaps.len() - 1],
            waits.len(),
            waits[0]
        );
        std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
        assert!(gaps[gaps.len() - 1] < INTERRUPTION_MAX, "{line}");
        assert!(waits[0] < INTERRUPTION_MAX, "{line}");
    });
}

/// Tests that a leader which is stopped by a signal gives its place up before it ends (C17.3).
#[test]
fn a_stopped_leader_gives_its_place_up() {
    watched_for(4 * INTERRUPTION_MAX, "stopped leaders", || {
        let Some(mut deployment) = Deployment::start() else {
            return;
        };
        let trainer = Trainer::start(&deployment.service);
        for _ in 0..2 {
            let old = deployment.leader();
            let mut process = deployment.dispatchers[old].take().unwrap();
            process.signal("TERM");
            assert!(process.has_ended_well());
            assert_ne!(deployment.leader(), old);
            let waited = deployment.answer_time();
            assert!(waited < INTERRUPTION_MAX, "{waited:?}");
            deployment.revive(old);
        }
        let waits = trainer.finish();
        assert!(waits[0] < INTERRUPTION_MAX, "{:?}", waits[0]);
    });
}

/// Tests that a leader which was paused changes nothing after its pause (C17.2, C17.3).
#[test]
fn a_paused_leader_changes_nothing() {
    watched_for(6 * INTERRUPTION_MAX, "paused leaders", || {
        let Some(deployment) = Deployment::start() else {
            return;
        };
        let trainer = Trainer::start(&deployment.service);
        let signal = |index: usize, name| {
            let process: &Process = deployment.dispatchers[index].as_ref().unwrap();
            process.signal(name);
        };
        for _ in 0..2 {
            thread::sleep(Duration::from_millis(500));
            let old = deployment.leader();
            signal(old, "STOP");
            let waited = deployment.answer_time();
            assert!(waited < INTERRUPTION_MAX, "{waited:?}");
            deployment.await_other_leader(old);
            signal(old, "CONT");
            thread::sleep(Duration::from_millis(500));
            assert_ne!(deployment.leader(), old);
            deployment.await_log(old, &["the dispatcher answers nothing more", "lease"]);
        }
        let waits = trainer.finish();
        assert!(waits[0] < INTERRUPTION_MAX, "{:?}", waits[0]);
    });
}

/// C17.2, C17.5: the leader and a member of etcd die or hang at the same time. Another dispatcher leads, and
/// nothing is lost.
#[test]
fn a_leader_may_fail_with_a_member() {
    watched_for(6 * INTERRUPTION_MAX, "a leader and a member of etcd", || {
        let Some(mut deployment) = Deployment::start() else {
            return;
        };
        let trainer = Trainer::start(&deployment.service);
        let mut gaps = Vec::new();
        for is_paused in [false, true, false, true] {
            thread::sleep(Duration::from_millis(500));
            let (old, member) = (deployment.leader(), deployment.etcd.leader());
            if is_paused {
                deployment.etcd.pause(member);
                deployment.dispatchers[old].as_ref().unwrap().signal("STOP");
            } else {
                deployment.etcd.kill(member);
                deployment.kill(old);
            }
            gaps.push(deployment.answer_time());
            if is_paused {
                deployment.etcd.resume(member);
                deployment.await_other_leader(old);
                deployment.dispatchers[old].as_ref().unwrap().signal("CONT");
                deployment.await_log(old, &["the dispatcher answers nothing more", "lease"]);
            } else {
                deployment.etcd.start_member(member);
                deployment.revive(old);
            }
            deployment.etcd.await_health();
        }
        let waits = trainer.finish();
        let line = format!(
            "leaders failed with a member of etcd: the control plane answered after {gaps:?}; the trainer took {} elements, \
             none lost or repeated, and waited at most {:?}\n",
            waits.len(),
            waits[0]
        );
        std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
        assert!(gaps.iter().all(|gap| *gap < 2 * INTERRUPTION_MAX), "{line}");
        assert!(waits[0] < 2 * INTERRUPTION_MAX, "{line}");
    });
}

/// Tests that the service survives the death or the pause of members of etcd, the leading member among them.
#[test]
fn failing_etcd_members_are_not_noticed() {
    watched_for(6 * INTERRUPTION_MAX, "failing members of etcd", || {
        let Some(mut deployment) = Deployment::start() else {
            return;
        };
        let trainer = Trainer::start(&deployment.service);
        let leader = deployment.leader();
        for is_paused in [false, true] {
            thread::sleep(Duration::from_millis(500));
            let first = deployment.etcd.leader();
            let other = (first + 1) % 3;
            for member in [first, other] {
                if is_paused {
                    deployment.etcd.pause(member);
                } else {
                    deployment.etcd.kill(member);
                }
                let waited = deployment.answer_time();
                assert!(waited < INTERRUPTION_MAX, "{waited:?}");
                thread::sleep(Duration::from_secs(2));
                if is_paused {
                    deployment.etcd.resume(member);
                } else {
                    deployment.etcd.start_member(member);
                }
                deployment.etcd.await_health();
            }
        }
        let kept = leader == deployment.leader();
        // The next leader reads what the members have made of late copies of requests.
        let last = deployment.leader();
        deployment.kill(last);
        let waited = deployment.answer_time();
        assert!(waited < INTERRUPTION_MAX, "{waited:?}");
        let waits = trainer.finish();
        let line = format!(
            "members of etcd died and hung: the same dispatcher leads: {kept}; the trainer waited at most {:?}\n",
            waits[0]
        );
        std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
        assert!(waits[0] < INTERRUPTION_MAX, "{line}");
    });
}

/// Tests that a service without quorum waits, and continues once etcd does.
#[test]
fn a_lost_quorum_only_delays() {
    watched_for(6 * INTERRUPTION_MAX, "a lost quorum", || {
        let Some(mut deployment) = Deployment::start() else {
            return;
        };
        let trainer = Trainer::start(&deployment.service);
        thread::sleep(Duration::from_millis(500));
        let leader = deployment.leader();
        let (one, other) = (deployment.etcd.leader(), (deployment.etcd.leader() + 1) % 3);
        deployment.etcd.kill(one);
        deployment.etcd.kill(other);
        thread::sleep(Duration::from_secs(4));
        let advice = [
            "does not answer",
            "check that etcd runs there and that most of its members live",
        ];
        for dispatcher in 0..DISPATCHERS {
            deployment.await_log(dispatcher, &advice);
        }
        let ended = ["the dispatcher answers nothing more", "its lease was not renewed"];
        deployment.await_log(leader, &ended);
        deployment.kill(leader);
        deployment.etcd.start_member(one);
        deployment.etcd.start_member(other);
        let waited = deployment.answer_time();
        assert!(waited < 2 * INTERRUPTION_MAX, "{waited:?}");
        let waits = trainer.finish();
        assert!(waits[0] < 2 * INTERRUPTION_MAX, "{:?}", waits[0]);
    });
}

#[test]
fn the_doctor_names_the_leader() {
    watched_for(4 * INTERRUPTION_MAX, "the doctor", || {
        let Some(mut deployment) = Deployment::start() else {
            return;
        };
        let members = |deployment: &Deployment| {
            let all = deployment.addresses.join(",");
            let finished = finish(millstream(
                &deployment.key,
                &["doctor", "--json", "--dispatcher", &all],
            ));
            let findings: Vec<serde_json::Value> = serde_json::from_str(&finished.stdout).unwrap();
            let members = findings.into_iter().find(|finding| finding["check"] == "members");
            members.expect("a finding about the members")
        };
        let leader = deployment.leader();
        let finding = members(&deployment);
        let expected = format!(
            "{} leads, 2 of 3 dispatchers stand by",
            deployment.addresses[leader]
        );
        assert_eq!(
            (&finding["level"], &finding["found"]),
            (&"ok".into(), &expected.into())
        );
        let other = (leader + 1) % DISPATCHERS;
        deployment.kill(other);
        let finding = members(&deployment);
        assert_eq!(finding["level"], "warning", "{finding:#}");
        let found = finding["found"].as_str().unwrap();
        assert!(found.contains(&deployment.addresses[other]), "{finding:#}");
    });
}

#[test]
fn unusable_stores_are_refused_by_name() {
    watched("unusable stores", || {
        let (_, key) = fresh_key();
        let refused = |arguments: &[&str]| {
            let bind = ["dispatcher", "--bind", "127.0.0.1:0"];
            let finished = finish(millstream(&key, &[&bind[..], arguments].concat()));
            assert!(!finished.status.success());
            finished.stderr
        };
        let error = refused(&["--store", "etcd://127.0.0.1:1/x"]);
        assert!(error.contains("etcd at 127.0.0.1:1 does not answer"), "{error}");
        let error = refused(&["--store", "etcd://10.0.0.7:2379/x"]);
        assert!(error.contains("write etcds://"), "{error}");
        let error = refused(&["--store", "etcd://mill:secret@127.0.0.1:1/x"]);
        assert!(
            error.contains("--store-user") && !error.contains("secret"),
            "{error}"
        );
        let error = refused(&["--store", "etcd://127.0.0.1:1/x", "--advertise", "head1"]);
        assert!(error.contains("`head1`") || error.contains("'head1'"), "{error}");
        let error = refused(&["--store", "etcds://10.0.0.7:2379/x"]);
        assert!(
            error.contains("an address that other machines cannot use"),
            "{error}"
        );
        let advertised = ["--store", "etcds://10.0.0.7:2379/x", "--advertise", "head1:5050"];
        let error = refused(&advertised);
        assert!(error.contains("--store-ca FILE"), "{error}");
        let error = refused(&["--store", "etcd://127.0.0.1:1/x", "--work-dir", "x"]);
        assert!(error.contains("cannot be used with"), "{error}");
        let Some(etcd) = EtcdCluster::start(1, &[]) else {
            return;
        };
        let store = format!("etcd://{}/test", etcd.addresses());
        let _own = Process::start(&key, &["dispatcher", "--store", &store, "--bind", "127.0.0.1:0"]);
        while etcd.ask(&["get", "test/cluster"]).is_empty() {
            thread::sleep(Duration::from_millis(20));
        }
        let (_, other) = fresh_key();
        let arguments = ["dispatcher", "--bind", "127.0.0.1:0", "--store", &store];
        let error = finish(millstream(&other, &arguments)).stderr;
        assert!(error.contains("belongs to a service with other keys"), "{error}");
    });
}
