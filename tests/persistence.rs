//! Tests of dispatcher processes that are killed and start again. With a work directory nothing is lost;
//! without one, readers and workers get an error.
#![expect(clippy::unwrap_used, reason = "tests and their helpers fail by panicking")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use millstream::client::{MaxOutstanding, Reader, ReaderConfig};
use millstream::control::rpc::SessionConfig;
use millstream::control::{JobId, Policy};
use millstream::element::{Dtype, Element, ElementSpec, TensorSpec};
use millstream::pipeline::graph::{ConstantTensor, Dataset};
use millstream::{ReadRequest, Service, ServiceConfig};
use millstream_testkit::rounds;
use proptest::prelude::*;
use tempfile::TempDir;

use crate::support::cluster::{drain, fresh_key, numbers as numbers_of};
use crate::support::consumers::Party;
use crate::support::http::{free_port, get};
use crate::support::mortal::{Killer, Mortal, lasting_address};
use crate::support::process::{Process, Running, millstream};
use crate::support::{eventually, watched, watched_for};

/// The number of files; each file is a split.
const FILES: usize = 6_000;
const WORKERS: usize = 4;
const KILLS: usize = 8;
/// The liveness timeout in seconds. The timeout is longer than the start of a process on a busy machine, so
/// that no living process counts as dead.
const LIVENESS_S: &str = "3";
/// The number of splits of the full-size test, which `ci/full` runs.
const SPLITS_WHOLE: usize = 100_000;
const KILLS_WHOLE: usize = 20;
/// The watchdog of the full-size test, ten times its duration on a busy machine.
const WATCHDOG_WHOLE: Duration = Duration::from_secs(1800);
/// The range of pauses before a kill, in milliseconds.
const PAUSE_MS: std::ops::Range<u64> = 0..150;

proptest! {
    // A failing case prints its pauses, which suffice to repeat it, so shrinking is off.
    #![proptest_config(ProptestConfig { max_shrink_iters: 0, ..rounds(1) })]

    #[test]
    fn a_repeatedly_killed_dispatcher_loses_nothing(pauses in pauses(KILLS)) {
        watched("killed dispatchers", move || every_file_comes_once(&pauses));
    }

    #[test]
    #[ignore = "takes minutes: ci/full runs it"]
    fn twenty_dispatcher_deaths_lose_nothing(
        pauses in pauses(KILLS_WHOLE),
    ) {
        watched_for(WATCHDOG_WHOLE, "killed dispatchers", move || every_number_comes_once(&pauses));
    }

    #[test]
    fn dispatcher_deaths_leave_no_client_behind(pauses in pauses(KILLS)) {
        watched("killed dispatchers", move || no_client_stays(&pauses));
    }
}

fn pauses(kills: usize) -> impl Strategy<Value = Vec<Duration>> {
    prop::collection::vec(PAUSE_MS.prop_map(Duration::from_millis), kills)
}

fn every_file_comes_once(pauses: &[Duration]) {
    let files = tempfile::tempdir().unwrap();
    for file in 0..FILES {
        std::fs::write(files.path().join(file.to_string()), "").unwrap();
    }
    let pattern = format!("{}/*", files.path().display());
    every_split_comes_once(Dataset::files(pattern), FILES, pauses, |element| {
        let paths = element.component(0).unwrap().strings().unwrap();
        paths.iter_str().map(|path| path.unwrap().to_owned()).collect()
    });
}

fn every_number_comes_once(pauses: &[Duration]) {
    let numbers = Dataset::range(0, i64::try_from(SPLITS_WHOLE).unwrap(), 1).split_size(1);
    every_split_comes_once(numbers, SPLITS_WHOLE, pauses, numbers_of);
}

/// Reads a dataset of `splits` splits with one element each, while the dispatcher is killed after each of
/// these pauses.
fn every_split_comes_once<T: Ord>(
    dataset: Dataset,
    splits: usize,
    pauses: &[Duration],
    names: impl Fn(&Element) -> Vec<T>,
) {
    let deployment = Deployment::start(WORKERS);
    let job = deployment.job(dataset);
    let mut reader = deployment.read(job, 0);
    let mut killer = Killer::start(&deployment.dispatcher, pauses);
    let mut seen = Vec::with_capacity(splits);
    while let Some(element) = reader.next_element().expect("the reader proceeds") {
        seen.extend(names(&element));
        // The kills are spread over the epoch: a kill becomes due after a part of the splits, once the
        // dispatcher runs again.
        if seen.len() % (splits / (pauses.len() + 1)) == 0 {
            killer.next_is_due();
        }
    }
    killer.finish();
    seen.sort_unstable();
    let came = seen.len();
    seen.dedup();
    assert_eq!((seen.len(), came), (splits, splits), "distinct, and all in all");
    assert!(
        reader.stats().lost_splits.is_empty(),
        "{:?}",
        reader.stats().lost_splits
    );
    drop(reader);
    let books = || {
        let status = deployment.service.status().expect("a status");
        let iteration = &status.iterations[0];
        let splits = (
            iteration.splits_done,
            iteration.splits_leased,
            iteration.splits_lost,
        );
        (splits, status.counts.clients, status.counts.workers)
    };
    eventually(
        "splits, clients and workers",
        &((splits as u64, 0, 0), 0, WORKERS as u64),
        books,
    );
}

fn no_client_stays(pauses: &[Duration]) {
    let deployment = Deployment::start(2);
    let job = deployment.job(Dataset::range(0, 1000, 1));
    let mut killer = Killer::start(&deployment.dispatcher, pauses);
    let mut opened = 0;
    for _ in pauses {
        killer.next_is_due();
        while killer.is_at_work() {
            let mut reader = deployment.read(job, opened);
            opened += 1;
            for _ in 0..10 {
                let next = reader.next_element().expect("the reader proceeds");
                next.expect("there is more");
            }
        }
    }
    killer.finish();
    let left = || {
        let counts = deployment.service.status().expect("a status").counts;
        (counts.clients, counts.iterations)
    };
    // A job without a name is unknown to other processes, so the dispatcher deletes it (C3.6).
    eventually("clients and iterations", &(0, 0), left);
    let mut reader = deployment.read(job, opened);
    assert_eq!(drain(&mut reader).len(), 1000);
}

/// Consumers stay in step across restarts of the dispatcher, even if a worker leaves or joins while the
/// dispatcher is dead (C1.6, C9.4, C9.5).
#[test]
fn dispatcher_deaths_keep_consumers_in_step() {
    watched("killed dispatchers", || {
        let mut deployment = Deployment::start(2);
        let mut party = Party::of(&deployment.service, 3, MaxOutstanding::Elements(20));
        party.read(20);
        for begun in 3..5 {
            deployment.dispatcher.kill_and_revive();
            drop(deployment.workers.remove(0));
            party.read(20);
            deployment.dispatcher.kill_and_revive();
            deployment.start_worker();
            party.read_until_begun(begun);
        }
    });
}

/// C3.9
#[test]
fn collected_jobs_stay_collected_across_restarts() {
    watched("collected for good", || {
        let flags = ["--job-gc-timeout-s", "0.2", "--job-gc-check-interval-s", "0"];
        let deployment = Deployment::configured(1, &[&flags[..], &["--gc-dynamic-sharding-jobs"]].concat());
        let counts = || {
            let counts = deployment.service.status().expect("a status").counts;
            (counts.datasets, counts.jobs, counts.iterations, counts.tasks)
        };
        let finished = deployment.job(Dataset::range(0, 10, 1));
        assert_eq!(drain(&mut deployment.read(finished, 0)).len(), 10);
        let abandoned = deployment.job(Dataset::range(0, i64::MAX, 1));
        deployment.read(abandoned, 0).next_element().unwrap().unwrap();
        for life in 0..2 {
            eventually("what is left", &(2, 0, 0, 0), counts);
            if life == 0 {
                deployment.dispatcher.kill_and_revive();
            }
        }
        assert_eq!(
            drain(&mut deployment.read(finished, 0)).len(),
            10,
            "read again, it begins again"
        );
    });
}

#[test]
fn forgotten_readers_and_workers_are_told() {
    watched("a dispatcher without memory", || {
        let (key, text) = fresh_key();
        let start =
            |bind: &str| Process::start(&text, &["dispatcher", "--bind", bind, "--liveness-s", LIVENESS_S]);
        let address = lasting_address();
        let first = start(&address);
        let worker = Running::start(millstream(&text, &["worker", "--dispatcher", &address]));
        let service = Service::connect(&key, &address, ServiceConfig::default()).unwrap();
        let forever = Dataset::range(0, i64::MAX, 1);
        let mut reader = read(&service, job_of(&service, forever), 0);
        reader.next_element().unwrap().unwrap();
        drop(first);
        let _second = start(&address);
        let error = reader.find_map(Result::err).unwrap().to_string();
        assert!(
            error.contains("the dispatcher restarted without its memory"),
            "{error}"
        );
        assert!(error.contains("--work-dir"), "{error}");
        let service = Service::connect(&key, &address, ServiceConfig::default()).unwrap();
        let job = job_of(&service, Dataset::range(0, 100, 1));
        assert_eq!(drain(&mut read(&service, job, 0)).len(), 100);
        worker.signal("TERM");
        let worker = worker.finish();
        assert!(worker.status.success(), "{worker:?}");
        assert!(
            worker
                .stderr
                .contains("the dispatcher restarted without its records"),
            "{worker:?}"
        );
    });
}

#[test]
fn a_dispatcher_survives_a_full_disk() {
    watched("a full disk", || {
        let (key, text) = fresh_key();
        let folder = tempfile::tempdir().unwrap();
        let (address, admin) = (lasting_address(), free_port());
        let bind = admin.to_string();
        let arguments = [
            "dispatcher",
            "--bind",
            &address,
            "--work-dir",
            path(folder.path()),
            "--admin",
            &bind,
        ];
        let dispatcher = Running::start(limited(&text, &arguments));
        let service = Service::connect(&key, &address, ServiceConfig::default()).unwrap();
        let (mut answered, mut refused) = (0, None);
        while refused.is_none() {
            match service.register(large(answered), None) {
                Ok(_) => answered += 1,
                Err(error) => refused = Some(error.to_string()),
            }
        }
        let refused = refused.unwrap();
        let file = folder.path().join("dispatcher.redb");
        assert!(
            refused.contains(&format!("the store is full: {}: ", file.display())),
            "{refused}"
        );
        assert!(answered > 0);
        // The dispatcher still answers status requests, but accepts no changes.
        assert_eq!(service.status().unwrap().counts.workers, 0);
        let overview = || get(admin, "/api/v1/status", "");
        // The overview may be a quarter of a second old, and a store that is opened again may have a little
        // room.
        let is_named = || {
            service.register(large(answered), None).ok();
            overview().contains("The dispatcher cannot store its records: ")
        };
        eventually("the overview names the store", &true, is_named);
        make_room(&dispatcher);
        let again = || service.register(large(answered), None).is_ok();
        eventually("the store has room", &true, again);
        let is_named = || overview().contains("cannot store its records");
        eventually("the overview forgets the store", &false, is_named);
        dispatcher.signal("TERM");
        let finished = dispatcher.finish();
        assert!(finished.status.success(), "{finished:?}");
        assert!(finished.stderr.contains("the store is full"), "{finished:?}");
        let again = Process::start(&text, &arguments);
        let service = Service::connect(&key, &again.address, ServiceConfig::default()).unwrap();
        let datasets = service.status().unwrap().counts.datasets;
        assert!(
            datasets > u64::from(answered),
            "{datasets} of {answered} and one more"
        );
    });
}

/// Removes the limit on the size of files that a process writes.
fn make_room(process: &Running) {
    let pid = process.id().to_string();
    let lifted = Command::new("prlimit")
        .args(["--pid", &pid, "--fsize=unlimited:unlimited"])
        .status();
    assert!(lifted.unwrap().success());
}

/// If an operator removes the store of a running dispatcher, the dispatcher notices the removal at the next
/// record (D12).
#[test]
fn a_store_that_is_removed_ends_its_dispatcher() {
    watched("a removed store", || {
        let (key, text) = fresh_key();
        let folder = tempfile::tempdir().unwrap();
        let arguments = [
            "dispatcher",
            "--bind",
            "127.0.0.1:0",
            "--work-dir",
            path(folder.path()),
        ];
        for removes in [true, false] {
            let address = lasting_address();
            let arguments = [&arguments[..2], &[address.as_str()], &arguments[3..]].concat();
            let dispatcher = Running::start(millstream(&text, &arguments));
            let session = SessionConfig {
                request_deadline: Duration::from_secs(5),
                ..SessionConfig::default()
            };
            let config = ServiceConfig {
                session,
                ..ServiceConfig::default()
            };
            let service = Service::connect(&key, &address, config).unwrap();
            service.register(Dataset::range(0, 10, 1), None).unwrap();
            let file = folder.path().join("dispatcher.redb");
            if removes {
                std::fs::remove_file(&file).unwrap();
            } else {
                std::fs::rename(&file, folder.path().join("elsewhere")).unwrap();
            }
            let registering = thread::spawn(move || service.register(Dataset::range(0, 20, 1), None).is_ok());
            let finished = dispatcher.finish();
            assert_eq!(finished.status.code(), Some(1), "{finished:?}");
            assert!(
                finished.stderr.contains("was removed or replaced"),
                "{finished:?}"
            );
            assert!(!registering.join().unwrap());
        }
    });
}

#[test]
fn an_unusable_work_directory_is_refused() {
    let (_, key) = fresh_key();
    let folder = tempfile::tempdir().unwrap();
    let start = [
        "dispatcher",
        "--bind",
        "127.0.0.1:0",
        "--work-dir",
        path(folder.path()),
    ];
    let refused = |said: &str| {
        let finished = Running::start(millstream(&key, &start)).finish();
        assert_eq!(finished.status.code(), Some(1), "{finished:?}");
        assert_eq!(finished.stdout, "");
        assert_eq!(finished.stderr, format!("millstream: {said}\n"));
    };
    let shown = folder.path().display();
    let running = Process::start(&key, &start);
    refused(&format!(
        "another dispatcher works in {shown}: stop it, or give this one a directory of its own"
    ));
    assert!(running.ends_well());
    std::fs::write(folder.path().join("dispatcher.redb"), "Dear diary").unwrap();
    refused(&format!(
        "{shown}/dispatcher.redb is not a dispatcher's store (it does not begin like one): move it away, or choose another \
         directory"
    ));
}

/// A dispatcher that is killed and started again, with its workers and a trainer's connection.
struct Deployment {
    service: Service,
    key: String,
    workers: Vec<Process>,
    dispatcher: Mortal,
    _folder: TempDir,
}

impl Deployment {
    fn start(workers: usize) -> Self {
        Self::configured(workers, &[])
    }

    /// Starts a deployment with additional flags for the dispatcher.
    fn configured(workers: usize, flags: &[&str]) -> Self {
        let (key, text) = fresh_key();
        let folder = tempfile::tempdir().unwrap();
        let flags = [&["--liveness-s", LIVENESS_S], flags].concat();
        let dispatcher = Mortal::start(&text, folder.path(), &flags);
        let address = &dispatcher.address;
        let service = Service::connect(&key, address, ServiceConfig::default()).unwrap();
        let mut deployment = Self {
            service,
            key: text,
            workers: Vec::new(),
            dispatcher,
            _folder: folder,
        };
        (0..workers).for_each(|_| deployment.start_worker());
        deployment
    }

    fn start_worker(&mut self) {
        let arguments = ["worker", "--dispatcher", &self.dispatcher.address];
        self.workers.push(Process::start(&self.key, &arguments));
    }

    fn job(&self, dataset: Dataset) -> JobId {
        job_of(&self.service, dataset)
    }

    fn read(&self, job: JobId, repetition: u64) -> Reader {
        read(&self.service, job, repetition)
    }
}

/// Creates a private job under DYNAMIC.
fn job_of(service: &Service, dataset: Dataset) -> JobId {
    let request = ReadRequest::new(service.register(dataset, None).unwrap(), Policy::Dynamic);
    service.job(&request).unwrap()
}

fn read(service: &Service, job: JobId, repetition: u64) -> Reader {
    let config = ReaderConfig {
        max_outstanding: MaxOutstanding::Elements(100),
        ..ReaderConfig::default()
    };
    service.read(job, repetition, &config).unwrap()
}

/// Returns a dataset whose definition has 200 kB.
fn large(number: u8) -> Dataset {
    const BYTES: usize = 200_000;
    let spec = TensorSpec::fixed(Dtype::U8, &[BYTES as u64]);
    let tensor = ConstantTensor::fixed(vec![number; BYTES]);
    Dataset::tensor_slices(ElementSpec::single(spec).unwrap(), vec![tensor])
}

/// Returns a command that may write files of a few MB. Writing beyond the limit fails with an error instead
/// of a signal.
fn limited(key: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' XFSZ; ulimit -Sf 8192; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_millstream"))
        .args(arguments)
        .env("MILLSTREAM_KEY", key)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}
