//! Tests of workers that shut down gracefully, in separate processes and in this process.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use millstream::client::{MaxOutstanding, Reader};
use millstream::control::{DispatcherConfig, Policy};
use millstream::pipeline::graph::{Dataset, Units};
use millstream::{Worker, WorkerConfig};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::cluster::{Cluster, drain, numbers, prompt};
use crate::support::links::Mechanism;
use crate::support::losses::next_or_lost;
use crate::support::process::Process;
use crate::support::{eventually, watched};

const ELEMENTS: i64 = 60_000;
const WORKERS: usize = 3;
/// The number of workers that leave during one read.
const LEAVES: usize = 5;
/// The range of pauses before the signal to leave, in milliseconds.
const PAUSE_MS: std::ops::Range<u64> = 0..100;
/// A deadline far beyond the test's watchdog: a process that needs it makes the test hang.
const NEVER: [&str; 2] = ["--drain-deadline-s", "3600"];

proptest! {
    // A failing case prints its pauses, which suffice to repeat it, so shrinking is off.
    #![proptest_config(ProptestConfig { max_shrink_iters: 0, ..rounds(2) })]

    /// The loss-free graceful shutdown of several workers, end to end (C10.2).
    #[test]
    fn leaving_workers_lose_and_repeat_nothing(
        pauses in prop::collection::vec(PAUSE_MS.prop_map(Duration::from_millis), LEAVES),
        shape in 0_usize..3,
    ) {
        watched("leaving workers", move || every_number_comes_as_often_as_it_should(&pauses, shape));
    }
}

fn every_number_comes_as_often_as_it_should(pauses: &[Duration], shape: usize) {
    let passes = if shape == 2 { 3 } else { 1 };
    let range = |numbers| Dataset::range(0, numbers, 1);
    let dataset = match shape {
        0 => range(ELEMENTS),
        1 => range(ELEMENTS).shuffle(1000, None).prefetch(4),
        _ => range(ELEMENTS / 3).repeat(Some(3)),
    };
    let cluster = cluster();
    let mut reader = cluster.read(
        dataset.batch(7, false),
        Policy::Dynamic,
        MaxOutstanding::Elements(40),
    );
    let mut leaver = Leaver::start(&cluster, pauses);
    let mut seen = Vec::new();
    while let Some(batch) = reader.next_element().expect("the reader proceeds") {
        seen.extend(numbers(&batch));
        if seen.len() > leaver.begun * ELEMENTS as usize / (LEAVES + 2) {
            leaver.next_is_due();
        }
    }
    leaver.finish();
    seen.sort_unstable();
    let expected: Vec<i64> = (0..ELEMENTS / passes)
        .flat_map(|number| vec![number; passes as usize])
        .collect();
    assert!(
        seen == expected,
        "{} of {} numbers came",
        seen.len(),
        expected.len()
    );
    assert!(reader.stats().lost_splits.is_empty());
}

/// A thread that makes workers leave one after the other, and replaces each of them.
struct Leaver {
    due: Option<Sender<()>>,
    done: Receiver<()>,
    /// The number of leaves that were requested.
    begun: usize,
    is_at_work: bool,
    thread: thread::JoinHandle<()>,
}

impl Leaver {
    fn start(cluster: &Cluster, pauses: &[Duration]) -> Self {
        let worker = {
            let (key, address) = (cluster.key_text.clone(), cluster.address.clone());
            move || {
                Process::start(
                    &key,
                    &[&["worker", "--dispatcher", &address], NEVER.as_slice()].concat(),
                )
            }
        };
        let mut workers: Vec<Process> = (0..WORKERS).map(|_| worker()).collect();
        let (due, is_due) = channel();
        let (tell, done) = channel();
        let pauses = pauses.to_vec();
        let thread = thread::spawn(move || {
            for (place, pause) in (0..WORKERS).cycle().zip(pauses) {
                // Receiving fails after the test has read all elements.
                if is_due.recv().is_err() {
                    return;
                }
                thread::sleep(pause);
                workers[place].signal("TERM");
                assert!(workers[place].has_ended_well());
                workers[place] = worker();
                let _ = tell.send(());
            }
        });
        Self {
            due: Some(due),
            done,
            begun: 0,
            is_at_work: false,
            thread,
        }
    }

    /// Requests the next leave, unless the previous leave is still in progress and needs the reader.
    fn next_is_due(&mut self) {
        if self.is_at_work {
            match self.done.try_recv() {
                Ok(()) => self.is_at_work = false,
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => panic!("a worker does not leave well"),
            }
        }
        self.begun += 1;
        // Sending fails after all workers have left.
        self.is_at_work = self.due.as_ref().is_some_and(|due| due.send(()).is_ok());
    }

    fn finish(mut self) {
        self.due = None;
        self.thread.join().expect("every worker left well");
        assert!(self.begun > 0);
    }
}

#[test]
fn an_only_workers_rest_goes_to_the_next() {
    watched("the only worker", || {
        let cluster = cluster();
        let mut first = worker(&cluster);
        let mut reader = read(&cluster, Dataset::range(0, ELEMENTS, 1), Policy::Dynamic);
        let mut seen = take(&mut reader, 1000);
        first.signal("TERM");
        let reading = thread::spawn(move || {
            seen.extend(drain(&mut reader));
            (seen, reader.stats().lost_splits)
        });
        assert!(first.has_ended_well());
        let _second = worker(&cluster);
        let (mut seen, lost) = reading.join().expect("the reader proceeds");
        seen.sort_unstable();
        assert!(seen == (0..ELEMENTS).collect::<Vec<_>>() && lost.is_empty());
    });
}

/// Only a graceful shutdown of the worker can end a pipeline that repeats for ever (C10.2).
#[test]
fn a_worker_leaves_an_endless_dataset() {
    watched("no end", || {
        let cluster = cluster();
        let mut workers = [worker(&cluster), worker(&cluster)];
        let dataset = Dataset::range(0, 10_000, 1).repeat(None).batch(10, false);
        let mut reader = read(&cluster, dataset, Policy::Dynamic);
        take(&mut reader, 100);
        workers[0].signal("TERM");
        let reading = thread::spawn(move || {
            let mut ended = false;
            // The reader continues as long as the worker needs a reader.
            while !ended {
                take(&mut reader, 100);
                ended = workers[0].has_ended();
            }
            take(&mut reader, 5000);
            reader.stats().lost_splits
        });
        assert!(reading.join().expect("the reader proceeds").is_empty());
    });
}

/// C10.1, C10.5.
#[test]
fn a_paused_reader_delays_leaving_until_the_deadline() {
    for end in ["deadline", "INT", "TERM"] {
        watched(end, move || {
            let cluster = cluster();
            let deadline = if end == "deadline" { "0.5" } else { "3600" };
            let mut leaving = worker_with(&cluster, &["--drain-deadline-s", deadline]);
            let mut reader = read(&cluster, Dataset::range(0, ELEMENTS, 1), Policy::Dynamic);
            let mut seen = take(&mut reader, 100);
            let _other = worker(&cluster);
            leaving.signal("TERM");
            if end != "deadline" {
                eventually("draining workers", &(1, 1), || {
                    let status = cluster.service().status().unwrap();
                    (
                        status.workers.iter().filter(|worker| worker.draining).count(),
                        status.counts.draining,
                    )
                });
                leaving.signal(end);
            }
            assert!(leaving.has_ended_well());
            seen.extend(take(&mut reader, usize::MAX));
            let distinct: BTreeSet<i64> = seen.iter().copied().collect();
            assert_eq!(distinct.len(), seen.len(), "a number came twice");
            let units = Units::of(ELEMENTS as u64);
            let lost: BTreeSet<i64> = reader
                .stats()
                .lost_splits
                .iter()
                .flat_map(|lost| lost.first..lost.first + lost.count)
                .flat_map(|split| units.range(split).unwrap())
                .map(|number| number as i64)
                .collect();
            let came_or_lost = distinct.union(&lost).count();
            assert_eq!(came_or_lost, ELEMENTS as usize, "missing and not reported");
        });
    }
}

/// C10.3, C10.4.
#[test]
fn a_leaving_worker_abandons_unread_tasks() {
    watched("nothing to wait for", || {
        let cluster = cluster();
        let mut leaving = worker(&cluster);
        let mut unread = read(&cluster, Dataset::range(0, 1 << 40, 1), Policy::Dynamic);
        take(&mut unread, 100);
        drop(unread);
        eventually("clients", &0, || {
            cluster.service().status().unwrap().counts.clients
        });
        let mut whole = read(&cluster, Dataset::range(0, 1 << 40, 1), Policy::Off);
        take(&mut whole, 100);
        // The readers wait for a first element from this worker.
        let untouched = read(&cluster, Dataset::range(0, 10, 1), Policy::Dynamic);
        leaving.signal("TERM");
        assert!(leaving.has_ended_well());
        let _next = worker(&cluster);
        assert_eq!(take(&mut whole, 100).len(), 100);
        let mut untouched = untouched;
        assert_eq!(drain(&mut untouched).len(), 10);
    });
}

#[test]
fn a_worker_may_be_stopped_repeatedly() {
    watched("stop and join", || {
        let cluster = cluster();
        let start = || Worker::start(&cluster.key, WorkerConfig::new(&cluster.address)).unwrap();
        let living = || cluster.service().status().unwrap().counts.workers;
        for is_drained in [true, false] {
            let worker = start();
            let stopper = worker.stopper();
            eventually("living workers", &1, living);
            assert!(!worker.has_ended());
            for _ in 0..2 {
                if is_drained {
                    stopper.drain();
                } else {
                    stopper.stop();
                }
            }
            eventually("an end", &true, || worker.has_ended());
            eventually("living workers", &0, living);
            worker.stop().unwrap();
            stopper.stop();
        }
        start().drain().unwrap();
        let worker = start();
        let stopper = worker.stopper();
        let joined = thread::spawn(move || worker.join());
        stopper.drain();
        joined.join().unwrap().unwrap();
        eventually("living workers", &0, living);
    });
}

/// Starts a service without workers, whose readers wait for workers longer than a test may take.
fn cluster() -> Cluster {
    let config = DispatcherConfig {
        workers_lost_grace: Duration::from_secs(3600),
        ..prompt()
    };
    Cluster::plain_with(Mechanism::Quic, config, 0)
}

fn worker(cluster: &Cluster) -> Process {
    worker_with(cluster, &NEVER)
}

fn worker_with(cluster: &Cluster, more: &[&str]) -> Process {
    let arguments = [&["worker", "--dispatcher", &cluster.address], more].concat();
    Process::start(&cluster.key_text, &arguments)
}

fn read(cluster: &Cluster, dataset: Dataset, policy: Policy) -> Reader {
    cluster.read(dataset, policy, MaxOutstanding::Elements(40))
}

fn take(reader: &mut Reader, elements: usize) -> Vec<i64> {
    let elements = (0..elements).map_while(|_| next_or_lost(reader));
    elements.flat_map(|element| numbers(&element)).collect()
}
