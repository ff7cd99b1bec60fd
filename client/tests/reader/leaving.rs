//! Tests of tasks and workers that leave, and of the messages to and from the dispatcher about them.

use std::sync::Arc;

use millstream_client::{LostSplits, Notice, OnLost, ReadError, ReaderConfig, Report, TaskEvent};
use millstream_dataplane::TaskId;
use millstream_dataplane::proto::send::Ending;
use millstream_dataplane::worker::Producer;
use parking_lot::Mutex;

use crate::support::{Read, SPLIT, Workers, expect, identity, lease, read, read_with, watched, write};

#[test]
fn a_removed_task_reports_its_begun_splits() {
    watched(|| {
        let workers = Workers::new(&["a"]);
        let mut read = read(&workers, 64);
        let mut producer = workers.add_silent_task("a", 5, 1);
        read.tell(workers.added("a", 5));
        // Writes one complete split. The split's end is sent apart from its elements.
        for index in 0..SPLIT {
            write(&mut producer, 5, index).expect("written");
        }
        producer.split_done(lease(5, 0), 1);
        expect(&mut read, 5, 0..SPLIT);
        // D5.6: the user is done with the latest element when it asks for another element.
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(read.reader.poll_element(&mut cx).is_pending());
        let report = read.reports.blocking_recv().expect("the reader lives");
        let done = Report::Done {
            task: TaskId(5),
            leases: vec![lease(5, 0)..=lease(5, 0)],
        };
        assert_eq!(report, done, "before the split's end");
        // Begins a second split, of which one element waits.
        for index in SPLIT..SPLIT + 3 {
            write(&mut producer, 5, index).expect("written");
        }
        expect(&mut read, 5, SPLIT..SPLIT + 2);
        let log = workers.log("a");
        log.wait(|traffic| traffic.acknowledged == SPLIT + 3);
        read.tell(TaskEvent::Removed {
            task: TaskId(5),
            reason: "the test says so".into(),
            has_left: false,
        });
        let report = read.reports.blocking_recv().expect("the reader lives");
        let Report::Removed { task, seen } = report else {
            panic!("{report:?} instead of the removal")
        };
        assert_eq!(
            (task, seen.partial),
            (TaskId(5), vec![lease(5, SPLIT)..=lease(5, SPLIT)])
        );
        read.tell(TaskEvent::IterationFinished);
        // Elements that had arrived are still handed over.
        let rest = std::iter::from_fn(|| read.reader.next_element().expect("no failure")).count();
        assert_eq!(rest, 1);
        drop(producer);
    });
}

#[test]
fn a_begun_split_is_reported_though_fully_consumed() {
    watched(|| {
        let workers = Workers::new(&["a"]);
        // The limit is large enough that one hand-over is not booked at once.
        let mut read = read(&workers, 64);
        let mut producer = workers.add_silent_task("a", 5, 1);
        read.tell(workers.added("a", 5));
        // Writes only one element, because elements before the last pack are booked in any case.
        write(&mut producer, 5, 0).expect("written");
        let element = read
            .reader
            .next_element()
            .expect("no failure")
            .expect("an element");
        assert_eq!(identity(&element), (5, 0));
        // Requests a second element and continues to wait.
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(read.reader.poll_element(&mut cx).is_pending());
        read.tell(TaskEvent::Removed {
            task: TaskId(5),
            reason: "the test says so".into(),
            has_left: false,
        });
        let report = read.reports.blocking_recv().expect("the reader lives");
        let Report::Removed { seen, .. } = report else {
            panic!("expected the removal, because no split has ended: {report:?}")
        };
        assert_eq!(seen.partial, [lease(5, 0)..=lease(5, 0)]);
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
                has_left: false,
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
fn a_worker_that_returns_is_read_again() {
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
        // Two references remain, of the test and of the reader, once the driver of the link has ended.
        while Arc::strong_count(&workers) > 2 {
            std::thread::yield_now();
        }
        read.tell(workers.add_task("a", 1, 5, 1, Ending::Exhausted));
        read.tell(TaskEvent::IterationFinished);
        let rest = std::iter::from_fn(|| read.reader.next_element().expect("no failure")).count();
        assert_eq!(rest, 5);
    });
}

/// Checks D3.1.
#[test]
fn a_task_announced_late_is_read() {
    watched(|| {
        let workers = Workers::new(&["a"]);
        let mut read = read(&workers, 8);
        read.tell(workers.added("a", 3));
        workers.log("a").wait(|traffic| traffic.refused > 0);
        workers.add_task("a", 3, 20, 1, Ending::Exhausted);
        expect(&mut read, 3, 0..20);
    });
}

/// Makes a reader that has received all elements of its task but not the task's end.
fn all_but_the_end(workers: &Arc<Workers>) -> (Read, Producer) {
    let mut read = read(workers, 8);
    let mut producer = workers.add_silent_task("a", 0, 1);
    read.tell(workers.added("a", 0));
    for index in 0..5 {
        write(&mut producer, 0, index).expect("written");
    }
    expect(&mut read, 0, 0..5);
    (read, producer)
}

/// C3.4: an iteration is finished once everything was delivered or named as lost.
#[test]
fn a_forgotten_task_ends_with_its_iteration() {
    for is_told_before in [false, true] {
        watched(move || {
            let workers = Workers::new(&["a"]);
            let (mut read, _producer) = all_but_the_end(&workers);
            if is_told_before {
                read.tell(TaskEvent::IterationFinished);
            }
            workers.cut("a");
            workers.start("a");
            workers.log("a").wait(|traffic| traffic.refused > 0);
            if !is_told_before {
                read.tell(TaskEvent::IterationFinished);
            }
            assert!(matches!(read.reader.next_element(), Ok(None)));
        });
    }
}

/// Checks C3.3.
#[test]
fn the_dispatchers_word_ends_a_task() {
    watched(|| {
        let workers = Workers::new(&["a"]);
        let (mut read, _producer) = all_but_the_end(&workers);
        workers.stop("a");
        read.tell(TaskEvent::Ended { task: TaskId(0) });
        read.tell(TaskEvent::IterationFinished);
        assert!(matches!(read.reader.next_element(), Ok(None)));
    });
}

/// Checks C4.1.
#[test]
fn splits_that_are_named_again_are_lost_once() {
    watched(|| {
        let workers = Workers::new(&[]);
        let mut read = read(&workers, 8);
        let lost = |first, count| LostSplits {
            source: 0,
            repetition: 1,
            first,
            count,
        };
        for splits in [vec![lost(4, 2)], vec![lost(4, 2), lost(6, 3)], vec![lost(20, 1)]] {
            let worker = "a".into();
            read.tell(TaskEvent::SplitsLost { splits, worker });
        }
        read.tell(TaskEvent::IterationFinished);
        assert!(matches!(read.reader.next_element(), Err(ReadError::DataLost(_))));
        assert_eq!(read.reader.stats().lost_splits, [lost(4, 5), lost(20, 1)]);
    });
}

/// Checks C16.4.
#[test]
fn exactly_once_readers_lose_no_splits() {
    watched(|| {
        let config = ReaderConfig {
            is_exactly_once: true,
            ..ReaderConfig::default()
        };
        let mut read = read_with(&Workers::new(&[]), config);
        let lost = LostSplits {
            source: 0,
            repetition: 0,
            first: 4,
            count: 2,
        };
        read.tell(TaskEvent::SplitsLost {
            splits: vec![lost],
            worker: "a".into(),
        });
        read.tell(TaskEvent::IterationFinished);
        assert!(matches!(read.reader.next_element(), Ok(None)));
        assert_eq!(read.reader.stats().lost_splits, []);
    });
}

/// Makes a reader of three elements whose worker is given up with two splits. Returns the reader, the user's
/// notices, and the task's producer, which must stay alive because its end would be a failure.
fn bereft(on_lost: OnLost) -> (Read, Arc<Mutex<Vec<Notice>>>, Producer) {
    let workers = Workers::new(&["a"]);
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = told.clone();
    let config = ReaderConfig {
        on_lost,
        on_notice: Some(Arc::new(move |notice: &Notice| {
            telling.lock().push(notice.clone())
        })),
        ..ReaderConfig::default()
    };
    let mut read = read_with(&workers, config);
    let mut producer = workers.add_silent_task("a", 0, 1);
    read.tell(workers.added("a", 0));
    for index in 0..3 {
        write(&mut producer, 0, index).expect("written");
    }
    expect(&mut read, 0, 0..3);
    read.tell(TaskEvent::Removed {
        task: TaskId(0),
        reason: "the worker stopped answering".into(),
        has_left: false,
    });
    read.tell(TaskEvent::SplitsLost {
        splits: vec![LostSplits {
            source: 0,
            repetition: 0,
            first: 7,
            count: 2,
        }],
        worker: "a".into(),
    });
    read.tell(TaskEvent::IterationFinished);
    (read, told, producer)
}

#[test]
fn an_end_after_a_loss_is_an_error() {
    watched(|| {
        let (mut read, told, _producer) = bereft(OnLost::Raise);
        for _ in 0..2 {
            let error = read.reader.next_element().expect_err("elements are missing");
            let ReadError::DataLost(loss) = &error else {
                panic!("{error}")
            };
            assert_eq!(loss.splits(), 2);
            let text = error.to_string();
            let named = "splits 7 to 8 (worker a: the worker stopped answering)";
            assert!(text.contains(named), "{text}");
        }
        let told = told.lock();
        assert!(
            matches!(&told[..], [Notice::WorkerLost { worker, .. }] if worker == "a"),
            "{told:?}"
        );
    });
}

#[test]
fn a_tolerated_loss_is_reported_once() {
    watched(|| {
        let (mut read, told, _producer) = bereft(OnLost::Warn);
        for _ in 0..2 {
            assert!(matches!(read.reader.next_element(), Ok(None)));
        }
        let told = told.lock();
        assert!(
            matches!(&told[..], [Notice::WorkerLost { .. }, Notice::DataLost(loss)] if loss.splits() == 2),
            "{told:?}"
        );
    });
}

#[test]
fn an_ignored_loss_stays_in_the_statistics() {
    watched(|| {
        let (mut read, told, _producer) = bereft(OnLost::Ignore);
        assert!(matches!(read.reader.next_element(), Ok(None)));
        assert_eq!(
            told.lock().len(),
            1,
            "the user is notified of the lost worker only"
        );
        assert_eq!(read.reader.stats().lost_splits[0].count, 2);
        assert_eq!(read.reader.loss().map(|loss| loss.splits()), Some(2));
    });
}

/// The test support takes only one report before the end, like a slow dispatcher.
#[test]
fn reports_that_nobody_takes_hold_up_nothing() {
    watched(|| {
        let workers = Workers::new(&["a"]);
        let mut read = read(&workers, 8);
        for task in 0..8 {
            read.tell(workers.add_task("a", task, 200, 1, Ending::Exhausted));
            expect(&mut read, task, 0..200);
        }
        read.tell(TaskEvent::IterationFinished);
        assert!(matches!(read.reader.next_element(), Ok(None)));
        let (mut done, mut drained) = (0, 0);
        while drained < 8 || done < 8 * 200 / SPLIT {
            match read.reports.blocking_recv().expect("the reader lives") {
                Report::Done { leases, .. } => done += leases.into_iter().flatten().count() as u64,
                Report::Drained { .. } => drained += 1,
                Report::Waiting { .. } => {}
                Report::Removed { .. } | Report::Ready { .. } | Report::Suspect { .. } => {
                    panic!("unexpected report: no task was removed or added late, and no link was lost")
                }
            }
        }
        assert_eq!(done, 8 * 200 / SPLIT);
    });
}

/// C5.8: all reports arrive, however slow the dispatcher is.
#[test]
fn a_leaving_reader_reports_everything_done() {
    watched(|| {
        let workers = Workers::new(&["a"]);
        let mut read = read(&workers, 8);
        for task in 0..8 {
            read.tell(workers.add_task("a", task, 200, 1, Ending::Exhausted));
            expect(&mut read, task, 0..200);
        }
        let Read {
            reader,
            events,
            mut reports,
            lane,
        } = read;
        drop((reader, events));
        let mut done = 0;
        while done < 8 * 200 / SPLIT {
            let report = reports.blocking_recv().expect("not all is reported");
            if let Report::Done { leases, .. } = report {
                done += leases.into_iter().flatten().count() as u64;
            }
        }
        drop(lane);
    });
}

/// Checks C4.4.
#[test]
fn a_reader_whose_lease_lapsed_says_so() {
    watched(|| {
        let workers = Workers::new(&["a"]);
        let mut read = read(&workers, 8);
        read.tell(workers.add_task("a", 0, 5, 1, Ending::Exhausted));
        read.tell(TaskEvent::LeaseDoubted(true));
        read.tell(TaskEvent::LeaseDoubted(false));
        expect(&mut read, 0, 0..5);
        read.tell(TaskEvent::Lapsed);
        assert_eq!(read.reader.next_element().err(), Some(ReadError::Lapsed));
    });
}
