//! Tests of `millstream autoscale`: workers that start and end as the service wants them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use millstream::Service;
use millstream::client::{MaxOutstanding, Reader};
use millstream::control::{DispatcherConfig, Policy, ScalingConfig};
use millstream::pipeline::graph::{Dataset, col};
use tempfile::TempDir;

use crate::source::tree::root;
use crate::support::cluster::{Cluster, fresh_key, prompt};
use crate::support::exact::{next_numbers, read_exactly_once};
use crate::support::links::Mechanism;
use crate::support::process::{Finished, Process, Running, finish, millstream};
use crate::support::watchdog::WATCHDOG;
use crate::support::{watched, watched_for};

/// The script that starts and ends workers.
const SCRIPT: &str = "deploy/autoscale/local-workers";

/// The numbers that a worker computes for each element. A reader that does nothing else waits for them. One
/// worker suffices for a slow reader, also while other tests run.
const STRIDE: i64 = 2048;

/// The time between two elements of a reader that works on each element.
const SLOW: Duration = Duration::from_millis(300);

/// The interval between two checks of a condition.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A service in this process that has no workers yet, and decides within seconds.
fn service() -> Cluster {
    let scaling = ScalingConfig {
        warm_up: Duration::ZERO,
        down_after: Duration::from_secs(2),
        idle_after: Duration::from_secs(3),
        settle: Duration::from_secs(1),
        ..ScalingConfig::default()
    };
    let config = DispatcherConfig { scaling, ..prompt() };
    Cluster::plain_with(Mechanism::Quic, config, 0)
}

/// Waits until `look` returns `wanted`, which may take many decisions.
fn reached(what: &str, wanted: u64, mut look: impl FnMut() -> u64) {
    let deadline = Instant::now() + WATCHDOG;
    loop {
        let seen = look();
        if seen == wanted {
            return;
        }
        assert!(Instant::now() < deadline, "{what}: {seen} instead of {wanted}");
        thread::sleep(LOOK_EVERY);
    }
}

/// Returns the number of workers that take tasks.
fn working(service: &Service) -> u64 {
    let status = service.status().expect("a status");
    let works = |worker: &&millstream::control::WorkerStatus| worker.dead.is_none() && !worker.draining;
    status.workers.iter().filter(works).count() as u64
}

/// Returns the reasons for which workers have ended.
fn ends_of_workers(service: &Service) -> Vec<String> {
    let status = service.status().expect("a status");
    let ends = status.workers.into_iter().filter_map(|worker| worker.dead);
    ends.collect()
}

/// The workers that the script has started. Dropping the value kills them.
struct Started(PathBuf);

impl Started {
    fn pids(&self) -> Vec<String> {
        let files = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let is_pid = |path: &PathBuf| {
            let kind = path.extension().and_then(|kind| kind.to_str());
            matches!(kind, Some("pid" | "draining"))
        };
        let paths = files.map(|file| file.path()).filter(is_pid);
        let texts = paths.filter_map(|path| fs::read_to_string(path).ok());
        // The start time of the process follows its id.
        let pids = texts.filter_map(|text| Some(text.split_whitespace().next()?.to_owned()));
        pids.collect()
    }

    /// Returns the number of processes that have not ended.
    fn living(&self) -> u64 {
        let lives = |pid: &&String| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm"));
            name.is_ok_and(|name| name.trim() == "millstream")
        };
        self.pids().iter().filter(lives).count() as u64
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        for pid in self.pids() {
            let path = format!("/proc/{pid}/comm");
            if fs::read_to_string(path).is_ok_and(|name| name.trim() == "millstream") {
                // The worker may end meanwhile; a failed signal is harmless.
                let _ = Command::new("kill").args(["-s", "KILL", &pid]).status();
            }
        }
    }
}

/// A trainer that reads an exactly-once job in order, and checks that no number is lost or repeated.
struct Trainer {
    taken: Arc<AtomicU64>,
    is_slow: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
    thread: thread::JoinHandle<()>,
}

impl Trainer {
    fn start(service: &Service) -> Trainer {
        let dataset = Dataset::range(0, 1 << 40, 1)
            .split_size(4096)
            .filter_expr((col("") % STRIDE).eq(0));
        let mut reader = read_exactly_once(service, dataset, 16);
        let (taken, is_slow, is_over) = <(Arc<AtomicU64>, Arc<AtomicBool>, Arc<AtomicBool>)>::default();
        let shared = (taken.clone(), is_slow.clone(), is_over.clone());
        let thread = thread::spawn(move || {
            let (taken, is_slow, is_over) = shared;
            let mut expected = 0;
            while !is_over.load(Ordering::Relaxed) {
                for number in next_numbers(&mut reader) {
                    assert_eq!(number, expected, "lost or repeated");
                    expected += STRIDE;
                    taken.fetch_add(1, Ordering::Relaxed);
                }
                if is_slow.load(Ordering::Relaxed) {
                    thread::sleep(SLOW);
                }
            }
        });
        Trainer {
            taken,
            is_slow,
            is_over,
            thread,
        }
    }

    /// Waits until the trainer has taken more elements than before.
    fn proceeds(&self) {
        let before = self.taken.load(Ordering::Relaxed);
        reached("progress", 1, || {
            u64::from(self.taken.load(Ordering::Relaxed) > before)
        });
    }
}

/// Opens a reader, for which the dispatcher wants a worker within seconds.
fn waiting_reader(cluster: &Cluster) -> Reader {
    cluster.read(
        Dataset::range(0, 10, 1),
        Policy::Dynamic,
        MaxOutstanding::Elements(4),
    )
}

fn autoscale(cluster: &Cluster, flags: &[&str]) -> Command {
    let common = [
        "autoscale",
        "--dispatcher",
        &cluster.address,
        "--interval-s",
        "0.2",
    ];
    millstream(&cluster.key_text, &[&common[..], flags].concat())
}

fn ended(running: Running) -> Finished {
    running.signal("TERM");
    let finished = running.finish();
    assert!(finished.status.success(), "{finished:?}");
    finished
}

#[test]
fn scaled_workers_lose_and_repeat_nothing() {
    watched_for(6 * WATCHDOG, "scaling", || {
        let cluster = service();
        let folder = TempDir::new().expect("a directory");
        let started = Started(folder.path().join("workers"));
        let script = format!(
            "{} {} --dispatcher {} --threads 1",
            root().join(SCRIPT).display(),
            started.0.display(),
            cluster.address
        );
        let mut command = autoscale(&cluster, &["--max", "3", "--exec", &script]);
        command.env("MILLSTREAM_COMMAND", env!("CARGO_BIN_EXE_millstream"));
        let scaler = Running::start(command);

        let trainer = Trainer::start(cluster.service());
        reached("workers of a waiting reader", 3, || working(cluster.service()));
        trainer.proceeds();
        trainer.is_slow.store(true, Ordering::Relaxed);
        reached("workers of a busy reader", 1, || working(cluster.service()));
        trainer.proceeds();
        trainer.is_over.store(true, Ordering::Relaxed);
        trainer.thread.join().expect("no number is lost or repeated");
        reached("workers without readers", 0, || working(cluster.service()));
        reached("processes", 0, || started.living());
        let ends = ends_of_workers(cluster.service());
        let are_drained = ends.iter().all(|end| end == "the worker was stopped");
        assert!(ends.len() >= 3 && are_drained, "{ends:?}");

        let said = ended(scaler).stdout;
        for line in [
            "1 worker, present 0: readers have arrived",
            "3 workers (the service wants 4), present 1: readers wait for data",
            "1 worker, present ",
            " busy workers serve the readers",
            "0 workers, present 1: no reader for ",
        ] {
            assert!(said.contains(line), "{line:?} is missing: {said}");
        }
    });
}

#[test]
fn the_script_stops_no_other_process() {
    watched("the script", || {
        let (_, text) = fresh_key();
        let mut other = Process::start(&text, &["dispatcher", "--bind", "127.0.0.1:0"]);
        let folder = TempDir::new().expect("a directory");
        let file = folder.path().join("1.pid");
        // A worker with this process id ended long ago.
        fs::write(&file, format!("{} 1\n", other.id())).expect("written");
        let script = Command::new(root().join(SCRIPT))
            .arg(folder.path())
            .env("MILLSTREAM_WANTED", "0")
            .status();
        assert!(script.expect("it runs").success());
        assert!(!file.exists(), "the entry is removed");
        // A signal would have ended the process by now, because the script waits for nothing.
        thread::sleep(SLOW);
        assert!(!other.has_ended());
    });
}

#[test]
fn failed_commands_are_told_and_repeated() {
    watched_for(2 * WATCHDOG, "a failing command", || {
        let cluster = service();
        let _reader = waiting_reader(&cluster);
        let folder = TempDir::new().expect("a directory");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (failed, told) = (path("failed"), path("told"));
        let command = format!(
            "test -e {failed} || {{ touch {failed}; exit 3; }}; echo $MILLSTREAM_WANTED of $MILLSTREAM_CURRENT > {told}"
        );
        let scaler = Running::start(autoscale(
            &cluster,
            &["--min", "2", "--max", "4", "--exec", &command],
        ));
        reached("runs", 1, || u64::from(Path::new(&told).exists()));
        reached("numbers", 1, || {
            u64::from(fs::read_to_string(&told).is_ok_and(|text| text == "2 of 0\n"))
        });
        let finished = ended(scaler);
        let reason = "the command of --exec failed (exit status: 3); trying again in 1 s";
        assert!(finished.stderr.contains(reason), "{finished:?}");
        let line = "2 workers (the service wants 1), present 0: readers have arrived";
        assert!(finished.stdout.contains(line), "{finished:?}");
    });
}

#[test]
fn deployments_are_scaled_by_kubectl() {
    watched_for(2 * WATCHDOG, "kubectl", || {
        let cluster = service();
        let _reader = waiting_reader(&cluster);
        let folder = TempDir::new().expect("a directory");
        let (program, told) = (folder.path().join("kubectl"), folder.path().join("told"));
        fs::write(
            &program,
            format!("#!/bin/sh\necho \"$*\" >> {}\n", told.display()),
        )
        .expect("written");
        assert!(
            Command::new("chmod")
                .arg("+x")
                .arg(&program)
                .status()
                .expect("it runs")
                .success()
        );
        let flags = [
            "--min",
            "2",
            "--max",
            "4",
            "--kubernetes",
            "mills",
            "--namespace",
            "training",
        ];
        let mut command = autoscale(&cluster, &flags);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", folder.path().display()));
        let scaler = Running::start(command);
        let expected = "scale deployment/mills --replicas=2 --namespace=training\n";
        reached("calls", 1, || {
            u64::from(fs::read_to_string(&told).is_ok_and(|text| text == expected))
        });
        ended(scaler);

        let mut command = autoscale(&cluster, &flags);
        command.env("PATH", "");
        let refused = finish(command);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        assert!(
            refused.stderr.contains("the program kubectl is not on PATH"),
            "{refused:?}"
        );
    });
}

#[test]
fn contradictory_flags_are_refused() {
    for (flags, code, reason) in [
        (
            &["--min", "5", "--max", "4", "--print"][..],
            1,
            "expected a minimum of at most the maximum",
        ),
        (&["--max", "4"], 2, "--exec <CMD>"),
        (
            &["--max", "4", "--print", "--exec", "true"],
            2,
            "cannot be used with",
        ),
        (
            &["--max", "4", "--print", "--namespace", "a"],
            1,
            "expected --kubernetes",
        ),
    ] {
        let refused = finish(millstream("", &[&["autoscale"], flags].concat()));
        assert_eq!(refused.status.code(), Some(code), "{refused:?}");
        assert!(refused.stderr.contains(reason), "{refused:?}");
    }
}
