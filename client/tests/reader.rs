//! A reader over real workers in this process, whatever their links do.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use millstream_client::{MaxOutstanding, ReadError, ReaderConfig, Report, TaskEvent};
use millstream_dataplane::TaskId;
use millstream_dataplane::proto::message::Failure;
use millstream_dataplane::proto::send::Ending;
use millstream_dataplane::transport::memory::Knobs;
use proptest::prelude::*;

use support::{Read, SPLIT, Workers, identity, lease, read, read_with, watched, write};

/// A task: where, how many elements, numbers in each.
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

/// Reads to the end: every element of each task once, in order; every split and every end reported once.
fn read_all(mut read: Read, plans: &[Plan]) {
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
    let (mut done, mut drained) = (BTreeSet::new(), BTreeSet::new());
    while drained.len() < plans.len() {
        match read.reports.blocking_recv().expect("the reader lives") {
            Report::Done(splits) => {
                for split in splits {
                    assert!(done.insert(split.lease), "lease {:x} reported twice", split.lease);
                }
            }
            Report::Drained { task } => assert!(drained.insert(task), "task {task} reported twice"),
            Report::Removed { .. } => panic!("nothing was removed"),
        }
    }
    let all = plans
        .iter()
        .enumerate()
        .flat_map(|(task, plan)| (0..plan.count).map(move |i| lease(task as u64, i)));
    assert_eq!(done, all.collect());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// D4.1, D4.2: whoever serves, no more than the bound has left the tasks and not been handed over, at any instant.
    #[test]
    fn every_element_arrives_once_within_the_bound(plans in plans(), max_outstanding in 1u64..60, group in 1usize..4) {
        watched(move || {
            let workers = Workers::new(&NAMES);
            for name in NAMES {
                workers.misbehave(name, [Knobs { cut_after_frames: None, reversed_in_groups_of: group }]);
            }
            read_all(begin(&workers, &plans, max_outstanding), &plans);
            assert!(workers.gauge.most() <= max_outstanding as i64, "{} of {max_outstanding}", workers.gauge.most());
        });
    }

    /// D6.1, D6.3: links that break at any frame cost nothing.
    #[test]
    fn broken_links_lose_nothing_and_repeat_nothing(
        plans in plans(),
        max_outstanding in 1u64..60,
        cuts in proptest::collection::vec((0..NAMES.len(), 0u64..30, 1usize..4), 1..6),
    ) {
        watched(move || {
            let workers = Workers::new(&NAMES);
            for (worker, frames, group) in cuts {
                let knobs = Knobs { cut_after_frames: Some(frames), reversed_in_groups_of: group };
                workers.misbehave(NAMES[worker], [knobs]);
            }
            read_all(begin(&workers, &plans, max_outstanding), &plans);
        });
    }
}

#[test]
fn a_reader_can_be_moved_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<millstream_client::Reader>();
}

/// D4.2, D4.5.
#[test]
fn nothing_is_taken_before_the_first_element_is_asked_for() {
    watched(|| {
        let workers = Workers::new(&["a"]);
        let read = read(&workers, 8);
        let producer = workers.add_silent_task("a", 0, 1);
        read.tell(workers.added("a", 0));
        let (asked, when) = std::sync::mpsc::channel();
        let waiting = std::thread::spawn(move || {
            producer.wait_started().expect("not stopped");
            asked.send(()).expect("the test waits");
            producer.finish(Ending::Exhausted);
        });
        assert!(
            when.recv_timeout(Duration::from_millis(100)).is_err(),
            "started before anybody asked"
        );
        read.tell(TaskEvent::IterationFinished);
        let mut reader = read.reader;
        assert!(matches!(reader.next_element(), Ok(None)));
        waiting.join().expect("no panic");
    });
}

#[test]
fn a_removed_task_is_reported_with_the_splits_begun() {
    watched(|| {
        let workers = Workers::new(&["a"]);
        let mut read = read(&workers, 64);
        let mut producer = workers.add_silent_task("a", 5, 1);
        read.tell(workers.added("a", 5));
        // One split whole, a second one begun.
        for index in 0..SPLIT + 3 {
            write(&mut producer, 5, index).expect("written");
        }
        producer.split_done(lease(5, 0), 1);
        for index in 0..SPLIT + 2 {
            let element = read
                .reader
                .next_element()
                .expect("no failure")
                .expect("an element");
            assert_eq!(identity(&element), (5, index));
        }
        // The end of the first split travels apart from its elements; only once it is here is the split whole.
        let report = read.reports.blocking_recv().expect("the reader lives");
        let Report::Done(done) = report else {
            panic!("{report:?} before the split's end")
        };
        assert_eq!(
            done.iter().map(|split| split.lease).collect::<Vec<_>>(),
            [lease(5, 0)]
        );
        read.tell(TaskEvent::Removed {
            task: TaskId(5),
            reason: "the test says so".into(),
        });
        let report = read.reports.blocking_recv().expect("the reader lives");
        let Report::Removed { task, seen } = report else {
            panic!("{report:?} instead of the removal")
        };
        assert_eq!((task, seen.partial), (TaskId(5), vec![lease(5, SPLIT)]));
        read.tell(TaskEvent::IterationFinished);
        // What had arrived is still handed over.
        let rest = std::iter::from_fn(|| read.reader.next_element().expect("no failure")).count();
        assert_eq!(rest, 1);
        drop(producer);
    });
}

#[test]
fn a_split_begun_is_reported_also_when_the_consumer_has_had_all_of_it_that_came() {
    watched(|| {
        let workers = Workers::new(&["a"]);
        // So many that a hand-over is not booked at once.
        let mut read = read(&workers, 64);
        let mut producer = workers.add_silent_task("a", 5, 1);
        read.tell(workers.added("a", 5));
        // One only: what came before the last pack is on record anyway.
        write(&mut producer, 5, 0).expect("written");
        let element = read
            .reader
            .next_element()
            .expect("no failure")
            .expect("an element");
        assert_eq!(identity(&element), (5, 0));
        // Asks for more than there is, and goes on waiting.
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(read.reader.poll_element(&mut cx).is_pending());
        read.tell(TaskEvent::Removed {
            task: TaskId(5),
            reason: "the test says so".into(),
        });
        let report = read.reports.blocking_recv().expect("the reader lives");
        let Report::Removed { seen, .. } = report else {
            panic!("nothing has ended: {report:?}")
        };
        assert_eq!(seen.partial, [lease(5, 0)]);
        drop(producer);
    });
}

#[test]
fn removing_a_task_while_it_sends_disturbs_nobody() {
    watched(|| {
        for _ in 0..20 {
            let workers = Workers::new(&["a"]);
            let mut read = read(&workers, 500);
            read.tell(workers.add_task("a", 0, 1_000_000, 64, Ending::Exhausted));
            read.tell(workers.add_task("a", 1, 2000, 64, Ending::Exhausted));
            let first = read
                .reader
                .next_element()
                .expect("no failure")
                .expect("an element");
            identity(&first);
            read.tell(TaskEvent::Removed {
                task: TaskId(0),
                reason: "the test says so".into(),
            });
            read.tell(TaskEvent::IterationFinished);
            let mut of_other = u64::from(identity(&first).0 == 1);
            while let Some(element) = read.reader.next_element().expect("no failure") {
                of_other += u64::from(identity(&element).0 == 1);
            }
            assert_eq!(of_other, 2000);
            workers.server("a").remove_task(TaskId(0));
        }
    });
}

#[test]
fn a_worker_that_comes_back_at_its_address_is_read_again() {
    watched(|| {
        let workers = Workers::new(&["a"]);
        let mut read = read(&workers, 8);
        read.tell(workers.add_task("a", 0, 5, 1, Ending::Exhausted));
        for _ in 0..5 {
            assert!(read.reader.next_element().expect("no failure").is_some());
        }
        while !matches!(read.reports.blocking_recv(), Some(Report::Drained { .. })) {}
        workers.cut("a");
        workers.start("a");
        // Longer than the driver takes to see that nothing is wanted any more.
        std::thread::sleep(Duration::from_millis(200));
        read.tell(workers.add_task("a", 1, 5, 1, Ending::Exhausted));
        read.tell(TaskEvent::IterationFinished);
        let rest = std::iter::from_fn(|| read.reader.next_element().expect("no failure")).count();
        assert_eq!(rest, 5);
    });
}

/// D5.3.
#[test]
fn a_task_error_comes_behind_the_elements_before_it() {
    watched(|| {
        let workers = Workers::new(&["a"]);
        let mut read = read(&workers, 8);
        let failure = Failure::new("data", "record 40 is torn", "x.rec", "");
        read.tell(workers.add_task("a", 0, 40, 1, Ending::Failed(failure.clone())));
        for index in 0..40 {
            let element = read
                .reader
                .next_element()
                .expect("no failure yet")
                .expect("an element");
            assert_eq!(identity(&element), (0, index));
        }
        let expected = ReadError::Task {
            worker: "a".into(),
            failure,
        };
        for _ in 0..2 {
            assert_eq!(read.reader.next_element().expect_err("the task failed"), expected);
        }
    });
}

#[test]
fn an_error_once_returned_stays() {
    watched(|| {
        let workers = Workers::patient(&["a", "b"]);
        let mut read = read(&workers, 64);
        let mut late = workers.add_silent_task("b", 1, 1);
        read.tell(workers.added("b", 1));
        write(&mut late, 1, 0).expect("written");
        assert!(read.reader.next_element().expect("no failure yet").is_some());
        // All credits stay with the other task; a failure needs none.
        let failing = workers.add_silent_task("a", 0, 1);
        failing.finish(Ending::Failed(Failure::new("data", "torn", "", "")));
        read.tell(workers.added("a", 0));
        let first = read.reader.next_element().expect_err("the task failed");
        write(&mut late, 1, 1).expect("written");
        // Long enough for the element to arrive if it may.
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(read.reader.next_element().expect_err("the same again"), first);
    });
}

#[test]
fn an_unreachable_worker_is_named_after_the_time_to_give_up() {
    watched(|| {
        let workers = Workers::new(&[]);
        let config = ReaderConfig {
            worker_give_up: Duration::from_millis(100),
            ..ReaderConfig::default()
        };
        let mut read = read_with(&workers, config);
        read.tell(workers.added("nowhere:1", 0));
        let error = read.reader.next_element().expect_err("nobody there");
        let ReadError::WorkerUnreachable { worker, reason, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!(
            (worker.as_str(), reason.as_str()),
            ("nowhere:1", "nobody lives there")
        );
    });
}

/// D3.2.
#[test]
fn a_task_that_stays_unknown_ends_reading_and_is_named() {
    watched(|| {
        let workers = Workers::new(&["a"]);
        let config = ReaderConfig {
            worker_give_up: Duration::from_millis(100),
            ..ReaderConfig::default()
        };
        let mut read = read_with(&workers, config);
        read.tell(workers.added("a", 44));
        let error = read.reader.next_element().expect_err("no such task");
        assert!(
            matches!(&error, ReadError::Refused { worker, task: 44, .. } if worker == "a"),
            "{error}"
        );
    });
}

/// D3.1.
#[test]
fn a_task_that_the_worker_hears_of_late_is_read() {
    watched(|| {
        let workers = Workers::new(&["a"]);
        let mut read = read(&workers, 8);
        read.tell(workers.added("a", 3));
        let late = workers.clone();
        let adding = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            late.add_task("a", 3, 20, 1, Ending::Exhausted)
        });
        for index in 0..20 {
            let element = read
                .reader
                .next_element()
                .expect("no failure")
                .expect("an element");
            assert_eq!(identity(&element), (3, index));
        }
        adding.join().expect("no panic");
        // The workers' runtime must not end on the reader's lane.
        drop(read);
        drop(workers);
    });
}

#[test]
fn cancelling_wakes_a_blocked_reader() {
    watched(|| {
        let workers = Workers::new(&[]);
        let Read {
            mut reader,
            events: _events,
            reports: _reports,
        } = read(&workers, 8);
        let canceller = reader.canceller();
        let blocked = std::thread::spawn(move || reader.next_element().map(|element| element.is_some()));
        canceller.cancel();
        assert_eq!(blocked.join().expect("no panic"), Err(ReadError::Cancelled));
    });
}

#[test]
fn an_element_beyond_the_bytes_allowed_is_an_error_that_says_so() {
    watched(|| {
        let workers = Workers::new(&["a"]);
        let config = ReaderConfig {
            max_outstanding: MaxOutstanding::Elements(4),
            max_outstanding_bytes: 10_000,
            ..ReaderConfig::default()
        };
        let mut read = read_with(&workers, config);
        read.tell(workers.add_task("a", 3, 4, 5000, Ending::Exhausted));
        let error = read.reader.next_element().expect_err("40 kB are more than 10");
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

/// D4.2: a credit of a task of fixed element size is worth just one element, so that small elements are many.
#[test]
fn automatic_credit_goes_by_the_size_of_the_elements() {
    watched(|| {
        let workers = Workers::patient(&["a"]);
        let mut read = read_with(&workers, ReaderConfig::default());
        read.tell(workers.add_task("a", 0, 50_000, 8, Ending::Exhausted));
        read.reader
            .next_element()
            .expect("no failure")
            .expect("an element");
        // 64 bytes, a header of 40, and where it comes from, 32.
        let expected = millstream_client::credit::AUTO_BYTES / 136;
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
