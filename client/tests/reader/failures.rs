//! Tests of errors: their origin, their text, and their repetition by later calls.

use std::sync::Arc;
use std::time::Duration;

use millstream_client::{ReadError, ReaderConfig, TaskEvent};
use millstream_dataplane::TaskId;
use millstream_dataplane::proto::message::{FailedElement, Failure};
use millstream_dataplane::proto::send::Ending;
use millstream_dataplane::transport::LinkLost;
use millstream_dataplane::worker::Producer;

use crate::support::{Read, Spoil, TRAP, Workers, expect, identity, read, read_with, watched, write};

/// Checks D5.3.
#[test]
fn a_task_error_follows_its_earlier_elements() {
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
            failure: failure.into(),
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
        expect(&mut read, 1, 0..1);
        // The second task holds all credits. A failure needs no credit.
        let failing = workers.add_silent_task("a", 0, 1);
        failing.finish(Ending::Failed(Failure::new("data", "torn", "", "")));
        read.tell(workers.added("a", 0));
        let first = read.reader.next_element().expect_err("the task failed");
        write(&mut late, 1, 1).expect("written");
        workers.log("b").wait(|traffic| traffic.packs == 2);
        assert_eq!(
            read.reader.next_element().expect_err("the error is repeated"),
            first
        );
    });
}

#[test]
fn nothing_is_delivered_after_unreadable_elements() {
    for how in [Spoil::Block, Spoil::Elements] {
        watched(move || {
            let workers = Workers::patient(&["a"]);
            workers.log("a").spoil(1, how);
            let mut read = read(&workers, 64);
            let mut producer = workers.add_silent_task("a", 0, 1);
            read.tell(workers.added("a", 0));
            write(&mut producer, 0, 0).expect("written");
            expect(&mut read, 0, 0..1);
            for index in 1..3 {
                write(&mut producer, 0, index).expect("written");
                workers.log("a").wait(|traffic| traffic.packs == index + 1);
            }
            for _ in 0..2 {
                let error = read.reader.next_element().expect_err("the second is torn");
                assert!(
                    matches!(&error, ReadError::Element { worker, .. } if worker == "a"),
                    "{error}"
                );
            }
            drop(producer);
        });
    }
}

#[test]
fn an_unreachable_worker_is_named_when_given_up() {
    watched(|| {
        let workers = Workers::new(&[]);
        let config = ReaderConfig {
            worker_give_up: Duration::from_millis(100),
            ..ReaderConfig::default()
        };
        let mut read = read_with(&workers, config);
        read.tell(workers.added("nowhere:1", 0));
        let error = read
            .reader
            .next_element()
            .expect_err("no worker has this address");
        let ReadError::WorkerUnreachable { worker, reason, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!(
            (worker.as_str(), reason.as_str()),
            ("nowhere:1", "no worker has this address")
        );
    });
}

/// Checks D3.2.
#[test]
fn a_task_unknown_for_good_ends_reading() {
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

/// The element that another job may leave out (C16.12).
const ELEMENT: FailedElement = FailedElement {
    split: 3,
    id: 40,
    yielded: 5,
};

fn told_failure(task: u64) -> TaskEvent {
    TaskEvent::TaskFailed {
        task: TaskId(task),
        worker: "a".into(),
        failure: Failure::new("task", "record 40 is torn", "", "").at_element(Some(ELEMENT)),
    }
}

fn assert_told(error: &ReadError) {
    let ReadError::Task { worker, failure } = error else {
        panic!("{error}")
    };
    assert_eq!(
        (worker.as_str(), failure.message.as_str()),
        ("a", "record 40 is torn")
    );
    assert_eq!(failure.element.as_deref(), Some(&ELEMENT));
}

/// Checks C6.6.
#[test]
fn a_late_reader_gets_the_failure() {
    watched(|| {
        let workers = Workers::new(&[]);
        let mut read = read(&workers, 8);
        read.tell(told_failure(0));
        read.tell(TaskEvent::IterationFinished);
        assert_told(&read.reader.next_element().expect_err("the task failed"));
    });
}

/// Makes a reader that has received five elements of a task.
fn begun(workers: &Arc<Workers>, worker_give_up: Duration) -> (Read, Producer) {
    let config = ReaderConfig {
        worker_give_up,
        ..ReaderConfig::default()
    };
    let mut read = read_with(workers, config);
    let mut producer = workers.add_silent_task("a", 0, 1);
    read.tell(workers.added("a", 0));
    for index in 0..5 {
        write(&mut producer, 0, index).expect("written");
    }
    expect(&mut read, 0, 0..5);
    (read, producer)
}

#[test]
fn a_failure_outlives_its_worker() {
    watched(|| {
        let workers = Workers::new(&["a"]);
        let (mut read, _producer) = begun(&workers, Duration::from_millis(50));
        read.tell(told_failure(0));
        workers.stop("a");
        assert_told(&read.reader.next_element().expect_err("the task failed"));
    });
}

/// C6.6: the reader fails however long a worker may be out of reach.
#[test]
fn a_failure_outlives_its_worker_without_witnesses() {
    for is_gone_before in [false, true] {
        watched(move || {
            let workers = Workers::new(&["a"]);
            let (mut read, _producer) = begun(&workers, Duration::from_secs(3600));
            read.tell(told_failure(0));
            if is_gone_before {
                workers.stop("a");
            }
            read.tell(TaskEvent::IterationFinished);
            if !is_gone_before {
                workers.stop("a");
            }
            assert_told(&read.reader.next_element().expect_err("the task failed"));
        });
    }
}

#[test]
fn the_dispatcher_reports_failures_that_workers_forgot() {
    for is_told_before in [false, true] {
        watched(move || {
            let workers = Workers::new(&["a"]);
            let (mut read, _producer) = begun(&workers, Duration::from_secs(3600));
            if is_told_before {
                read.tell(told_failure(0));
            }
            workers.cut("a");
            workers.start("a");
            workers.log("a").wait(|traffic| traffic.refused > 0);
            if !is_told_before {
                read.tell(told_failure(0));
            }
            // The end that the dispatcher reports does not mean that the task succeeded.
            read.tell(TaskEvent::Ended { task: TaskId(0) });
            read.tell(TaskEvent::IterationFinished);
            assert_told(&read.reader.next_element().expect_err("the task failed"));
        });
    }
}

/// D5.3: the dispatcher may report the failure while earlier elements are still in flight.
#[test]
fn a_failure_told_twice_follows_its_earlier_elements() {
    watched(|| {
        let workers = Workers::patient(&["a"]);
        let mut read = read(&workers, 8);
        let mut producer = workers.add_silent_task("a", 0, 1);
        read.tell(workers.added("a", 0));
        write(&mut producer, 0, 0).expect("written");
        expect(&mut read, 0, 0..1);
        read.tell(told_failure(0));
        for index in 1..40 {
            write(&mut producer, 0, index).expect("written");
        }
        let failure = Failure::new("data", "record 40 is torn", "x.rec", "");
        producer.finish(Ending::Failed(failure.clone()));
        expect(&mut read, 0, 1..40);
        let error = read.reader.next_element().expect_err("the task failed");
        let worker = "a".into();
        let failure = failure.into();
        assert_eq!(error, ReadError::Task { worker, failure });
    });
}

#[test]
fn a_panic_is_an_error_and_no_hang() {
    watched(|| {
        let workers = Workers::new(&[]);
        let mut read = read(&workers, 8);
        read.tell(workers.added(TRAP, 0));
        let error = read.reader.next_element().expect_err("a driver panicked");
        let ReadError::Internal { what, message } = &error else {
            panic!("{error}")
        };
        assert!(what.contains(TRAP), "{what}");
        assert!(message.contains("a client connected to the trap"), "{message}");
    });
}

/// Checks D1.1 and D1.3.
#[test]
fn a_worker_of_another_version_is_named() {
    watched(|| {
        let workers = Workers::new(&[]);
        let end = workers.add_stranger("z");
        let mut read = read(&workers, 8);
        read.tell(workers.added("z", 0));
        let error = read.reader.next_element().expect_err("another version");
        let ReadError::WorkerMisbehaved { worker, reason } = &error else {
            panic!("{error}")
        };
        assert_eq!(worker, "z");
        assert!(
            reason.contains("version 2") && reason.contains("version 1"),
            "{reason}"
        );
        let heard = end.recv().expect("the link ended");
        assert_eq!(heard, LinkLost::Blamed(reason.clone()));
    });
}
