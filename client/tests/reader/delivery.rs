//! Tests of delivered elements, and of the limits of outstanding elements.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use millstream_client::{MaxOutstanding, ReadError, ReaderConfig, Report, TaskEvent};
use millstream_dataplane::proto::send::Ending;
use millstream_dataplane::transport::memory::Knobs;
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::{Read, Workers, expect, identity, lease, read, read_with, watched, write};

/// A task: its worker, its number of elements, and the amount of numbers in each element.
#[derive(Debug, Clone)]
struct Plan {
    worker: usize,
    count: u64,
    items: u64,
}

const NAMES: [&str; 3] = ["a", "b", "c"];

fn plans() -> impl Strategy<Value = Vec<Plan>> {
    let items = prop_oneof![3 => 1u64..40, 1 => 1000u64..6000];
    let plan =
        (0..NAMES.len(), 0u64..400, items).prop_map(|(worker, count, items)| Plan { worker, count, items });
    proptest::collection::vec(plan, 1..5)
}

fn begin(workers: &Arc<Workers>, plans: &[Plan], max_outstanding: u64) -> Read {
    let read = read(workers, max_outstanding);
    for (task, plan) in plans.iter().enumerate() {
        let name = NAMES[plan.worker];
        read.tell(workers.add_task(name, task as u64, plan.count, plan.items, Ending::Exhausted));
    }
    read.tell(TaskEvent::IterationFinished);
    read
}

/// Reads to the end. Checks that every element of each task arrives once and in order, and that every split
/// and every end is reported once. Only workers in `cut` may be reported as suspect (C7.8).
fn read_all(mut read: Read, plans: &[Plan], cut: &BTreeSet<&str>) {
    let mut next: BTreeMap<u64, u64> = BTreeMap::new();
    while let Some(element) = read.reader.next_element().expect("no failure") {
        let (task, index) = identity(&element);
        let expected = next.entry(task).or_default();
        assert_eq!(index, *expected, "task {task}");
        *expected += 1;
    }
    for (task, plan) in plans.iter().enumerate() {
        assert_eq!(
            next.get(&(task as u64)).copied().unwrap_or_default(),
            plan.count,
            "task {task}"
        );
    }
    assert!(
        matches!(read.reader.next_element(), Ok(None)),
        "an ended reader stays ended"
    );
    let all = plans
        .iter()
        .enumerate()
        .flat_map(|(task, plan)| (0..plan.count).map(move |i| lease(task as u64, i)));
    let all: BTreeSet<u64> = all.collect();
    let (mut done, mut drained) = (BTreeSet::new(), BTreeSet::new());
    while drained.len() < plans.len() || done.len() < all.len() {
        match read.reports.blocking_recv().expect("the reader lives") {
            Report::Done { leases, .. } => {
                for lease in leases.into_iter().flatten() {
                    assert!(done.insert(lease), "lease {lease:x} reported twice");
                }
            }
            Report::Drained { task } => assert!(drained.insert(task), "task {task} reported twice"),
            Report::Waiting { .. } => {}
            Report::Suspect { worker } => {
                assert!(cut.contains(worker.as_str()), "no link to worker {worker} broke");
            }
            Report::Removed { .. } | Report::Ready { .. } => {
                panic!("unexpected report: no task was removed or added late")
            }
        }
    }
    assert_eq!(done, all);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..rounds(24) })]

    /// D4.1, D4.2: at any time, the number of elements that have left the tasks but were not handed over
    /// stays within the bound.
    #[test]
    fn every_element_arrives_once_within_the_bound(plans in plans(), max_outstanding in 1u64..60, group in 1usize..4) {
        watched(move || {
            let workers = Workers::new(&NAMES);
            for name in NAMES {
                workers.misbehave(name, [Knobs { cut_after_frames: None, reversed_in_groups_of: group }]);
            }
            read_all(begin(&workers, &plans, max_outstanding), &plans, &BTreeSet::new());
            assert!(workers.gauge.most() <= max_outstanding as i64, "{} of {max_outstanding}", workers.gauge.most());
        });
    }

    /// D6.1, D6.3: links that break at any frame neither lose nor repeat elements.
    #[test]
    fn broken_links_lose_nothing_and_repeat_nothing(
        plans in plans(),
        max_outstanding in 1u64..60,
        cuts in proptest::collection::vec((0..NAMES.len(), 0u64..30, 1usize..4), 1..6),
    ) {
        watched(move || {
            let workers = Workers::new(&NAMES);
            let cut = cuts.iter().map(|(worker, ..)| NAMES[*worker]).collect();
            for (worker, frames, group) in cuts {
                let knobs = Knobs { cut_after_frames: Some(frames), reversed_in_groups_of: group };
                workers.misbehave(NAMES[worker], [knobs]);
            }
            read_all(begin(&workers, &plans, max_outstanding), &plans, &cut);
        });
    }
}

#[test]
fn a_reader_can_be_moved_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<millstream_client::Reader>();
}

/// Checks D4.2 and D4.5.
#[test]
fn nothing_is_taken_before_the_first_request() {
    watched(|| {
        let workers = Workers::new(&["a"]);
        let read = read(&workers, 8);
        let log = workers.log("a");
        let first = workers.add_silent_task("a", 0, 1);
        read.tell(workers.added("a", 0));
        log.wait(|traffic| traffic.accepted == 1);
        // The reader sends its answer to the acceptance before it subscribes to the second task.
        let second = workers.add_silent_task("a", 1, 1);
        read.tell(workers.added("a", 1));
        log.wait(|traffic| traffic.subscribes == 2);
        assert_eq!(
            log.grants(),
            0,
            "the reader granted credits before the first request"
        );
        let producing = std::thread::spawn(move || {
            for producer in [first, second] {
                producer.wait_started().expect("not stopped");
                producer.finish(Ending::Exhausted);
            }
        });
        read.tell(TaskEvent::IterationFinished);
        let mut reader = read.reader;
        assert!(matches!(reader.next_element(), Ok(None)));
        producing.join().expect("no panic");
    });
}

#[test]
fn any_bound_on_bytes_can_be_set() {
    watched(|| {
        let workers = Workers::new(&["a"]);
        let config = ReaderConfig {
            max_outstanding_bytes: u64::MAX,
            ..ReaderConfig::default()
        };
        let mut read = read_with(&workers, config);
        read.tell(workers.add_task("a", 0, 5, 1, Ending::Exhausted));
        expect(&mut read, 0, 0..5);
    });
}

#[test]
fn an_oversized_element_is_an_error() {
    watched(|| {
        let workers = Workers::new(&["a"]);
        let config = ReaderConfig {
            max_outstanding: MaxOutstanding::Elements(4),
            max_outstanding_bytes: 10_000,
            ..ReaderConfig::default()
        };
        let mut read = read_with(&workers, config);
        read.tell(workers.add_task("a", 3, 4, 5000, Ending::Exhausted));
        let error = read
            .reader
            .next_element()
            .expect_err("40 kB exceed the limit of 10 kB");
        let ReadError::ElementTooLarge {
            task: 3,
            element_bytes,
            max_outstanding_bytes: 10_000,
        } = error
        else {
            panic!("{error}")
        };
        assert!(element_bytes >= 40_000);
    });
}

/// D4.2: if the element size is fixed, a credit is worth exactly one element, so that `Auto` grants many
/// credits for small elements.
#[test]
fn automatic_credit_depends_on_element_size() {
    watched(|| {
        let workers = Workers::patient(&["a"]);
        let mut read = read_with(&workers, ReaderConfig::default());
        read.tell(workers.add_task("a", 0, 50_000, 8, Ending::Exhausted));
        read.reader
            .next_element()
            .expect("no failure")
            .expect("an element");
        // Each element has 64 payload bytes, a header of 40 bytes and an origin of 32 bytes.
        let expected = millstream_client::AUTO_BYTES_MIN / 136;
        let taken = || {
            workers
                .server("a")
                .counters()
                .elements
                .load(std::sync::atomic::Ordering::SeqCst)
        };
        while taken() < expected {
            std::thread::yield_now();
        }
    });
}

/// D4.2: at the same rate, a longer round trip requires more outstanding bytes.
#[test]
fn automatic_credit_grows_with_the_round_trip() {
    watched(|| {
        let workers = Workers::patient(&["a"]);
        workers.log("a").say_round_trip(Duration::from_secs(10));
        let mut read = read_with(&workers, ReaderConfig::default());
        // Each element has 64 KiB.
        read.tell(workers.add_task("a", 0, 1 << 30, 8192, Ending::Exhausted));
        let on_a_short_path = (millstream_client::AUTO_BYTES_MIN / (64 << 10)) as i64;
        let mut handed = 0;
        while workers.gauge.most() <= 2 * on_a_short_path {
            expect(&mut read, 0, handed..handed + 1);
            handed += 1;
        }
    });
}

/// D6.5: a worker keeps sent elements and ends of splits until the acknowledgement, so the reader
/// acknowledges them during a pause. D4.6: the acknowledgement shows that the consumer pauses, so that the
/// worker does not assume a slow link.
#[test]
fn what_arrived_is_acknowledged_although_the_consumer_pauses() {
    watched(|| {
        let workers = Workers::patient(&["a"]);
        let mut read = read(&workers, 8);
        let mut producer = workers.add_silent_task("a", 0, 1);
        read.tell(workers.added("a", 0));
        for index in 0..9 {
            write(&mut producer, 0, index).expect("written");
        }
        expect(&mut read, 0, 0..1);
        // The ninth element used the credit that the first hand-over freed. No further grant follows.
        let log = workers.log("a");
        log.wait(|traffic| traffic.acknowledged == 9 && traffic.waiting == Some(8));
        drop(producer);
    });
}
