//! Tests of waits during which other workers are read, of their notices, and of their ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_client::{Bottleneck, Notice, OnNotice, ReadError, ReaderConfig, Report, TaskEvent};
use millstream_dataplane::TaskId;
use millstream_dataplane::proto::send::Ending;
use parking_lot::Mutex;

use crate::support::{Read, Workers, expect, identity, read, read_with, watched, write};

/// Makes settings that give workers up at their second failure.
fn impatient() -> ReaderConfig {
    ReaderConfig {
        worker_give_up: Duration::ZERO,
        ..ReaderConfig::default()
    }
}

/// Waits until the reader has tried an absent worker this number of times.
fn tried(workers: &Workers, name: &str, times: usize) {
    let count = || {
        let dialled = workers.dialled.lock();
        dialled.iter().filter(|place| place.address == name).count()
    };
    while count() < times {
        std::thread::yield_now();
    }
}

/// Checks D3.5.
#[test]
fn an_unreachable_worker_delays_no_other() {
    watched(|| {
        let workers = Workers::new(&["a"]);
        let mut read = read_with(&workers, impatient());
        read.tell(workers.added("nowhere:1", 1));
        let mut producer = workers.add_silent_task("a", 0, 1);
        read.tell(workers.added("a", 0));
        write(&mut producer, 0, 0).expect("written");
        expect(&mut read, 0, 0..1);
        tried(&workers, "nowhere:1", 4);
        for index in 1..50 {
            write(&mut producer, 0, index).expect("written");
        }
        producer.finish(Ending::Exhausted);
        expect(&mut read, 0, 1..50);
        // No other task remains.
        for _ in 0..2 {
            let error = read.reader.next_element().expect_err("a task was not read");
            assert!(
                matches!(&error, ReadError::WorkerUnreachable { worker, .. } if worker == "nowhere:1"),
                "{error}"
            );
        }
    });
}

#[test]
fn a_given_up_worker_is_read_when_back() {
    watched(|| {
        let workers = Workers::new(&["a"]);
        let mut read = read_with(&workers, impatient());
        read.tell(workers.added("b", 1));
        let mut holding = workers.add_silent_task("a", 0, 1);
        read.tell(workers.added("a", 0));
        write(&mut holding, 0, 0).expect("written");
        expect(&mut read, 0, 0..1);
        tried(&workers, "b", 4);
        workers.start("b");
        let mut producer = workers.add_silent_task("b", 1, 1);
        write(&mut producer, 1, 0).expect("written");
        expect(&mut read, 1, 0..1);
        holding.finish(Ending::Exhausted);
        write(&mut producer, 1, 1).expect("written");
        producer.finish(Ending::Exhausted);
        expect(&mut read, 1, 1..2);
        read.tell(TaskEvent::IterationFinished);
        assert!(matches!(read.reader.next_element(), Ok(None)));
    });
}

#[test]
fn a_long_unknown_task_waits_for_the_dispatcher() {
    watched(|| {
        let workers = Workers::new(&["a", "b"]);
        let mut read = read_with(&workers, impatient());
        read.tell(workers.added("b", 1));
        let mut producer = workers.add_silent_task("a", 0, 1);
        read.tell(workers.added("a", 0));
        write(&mut producer, 0, 0).expect("written");
        expect(&mut read, 0, 0..1);
        workers.log("b").wait(|traffic| traffic.refused >= 3);
        write(&mut producer, 0, 1).expect("written");
        expect(&mut read, 0, 1..2);
        read.tell(TaskEvent::Removed {
            task: TaskId(1),
            reason: "the worker restarted".into(),
            has_left: false,
        });
        // Until its removal the unknown task is still read, and would be the only remaining task.
        while !matches!(read.reports.blocking_recv(), Some(Report::Removed { .. })) {}
        producer.finish(Ending::Exhausted);
        read.tell(TaskEvent::IterationFinished);
        assert!(matches!(read.reader.next_element(), Ok(None)));
    });
}

#[test]
fn no_worker_is_given_up_without_a_dispatcher() {
    watched(|| {
        let workers = Workers::new(&[]);
        let mut read = read_with(&workers, impatient());
        read.tell(TaskEvent::Contact { is_up: false });
        read.tell(workers.added("a", 0));
        tried(&workers, "a", 4);
        assert!(read.reader.wait_element(Duration::ZERO).is_pending());
        workers.start("a");
        let mut producer = workers.add_silent_task("a", 0, 1);
        write(&mut producer, 0, 0).expect("written");
        expect(&mut read, 0, 0..1);
    });
}

/// Each link lasts for less time than a stable link must, but carries an element.
#[test]
fn links_that_carry_and_break_are_progress() {
    watched(|| {
        let workers = Workers::new(&["a"]);
        let give_up = Duration::from_millis(100);
        let config = ReaderConfig {
            worker_give_up: give_up,
            ..ReaderConfig::default()
        };
        let mut read = read_with(&workers, config);
        let mut producer = workers.add_silent_task("a", 0, 1);
        read.tell(workers.added("a", 0));
        let (since, mut index) = (Instant::now(), 0);
        while since.elapsed() < 10 * give_up || index < 5 {
            write(&mut producer, 0, index).expect("written");
            expect(&mut read, 0, index..index + 1);
            workers.cut("a");
            index += 1;
        }
    });
}

/// Makes a reader whose notices are recorded.
fn listening(workers: &Arc<Workers>, config: ReaderConfig) -> (Read, Arc<Mutex<Vec<Notice>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = told.clone();
    let on_notice: OnNotice = Arc::new(move |notice: &Notice| telling.lock().push(notice.clone()));
    let config = ReaderConfig {
        on_notice: Some(on_notice),
        ..config
    };
    (read_with(workers, config), told)
}

#[test]
fn a_reader_without_workers_says_so_and_ends() {
    watched(|| {
        let workers = Workers::new(&[]);
        let config = ReaderConfig {
            no_workers_give_up: Duration::from_millis(2500),
            ..ReaderConfig::default()
        };
        let (mut read, told) = listening(&workers, config);
        let error = read.reader.next_element().expect_err("no worker registered");
        assert!(
            matches!(&error, ReadError::NoWorkers { dispatcher, .. } if dispatcher == "dispatcher:1"),
            "{error}"
        );
        let text: Vec<String> = told.lock().iter().map(Notice::to_string).collect();
        assert_eq!(
            text,
            [
                "waiting for workers: none registered at dispatcher:1 that this reader may read, since 2 s. Start workers: \
                millstream worker --dispatcher dispatcher:1"
            ]
        );
        assert_eq!(read.reader.stats().bottleneck, Bottleneck::NoWorkers);
    });
}

#[test]
fn slow_consumers_are_their_own_bottleneck() {
    watched(|| {
        let workers = Workers::new(&["a"]);
        let mut read = read(&workers, 64);
        read.tell(workers.add_task("a", 0, 40, 1, Ending::Exhausted));
        let since = Instant::now();
        expect(&mut read, 0, 0..1);
        // The time of a training step. The 39 steps together take far longer than the first element did.
        let step = since.elapsed().max(Duration::from_millis(5));
        for _ in 1..40 {
            identity(&read.reader.next_element().expect("no failure").expect("more"));
            std::thread::sleep(step);
        }
        assert_eq!(read.reader.stats().bottleneck, Bottleneck::Trainer);
    });
}

#[test]
fn slow_workers_are_the_bottleneck_whatever_the_link() {
    watched(|| {
        let workers = Workers::patient(&["a"]);
        let mut read = read(&workers, 64);
        let mut producer = workers.add_silent_task("a", 0, 1);
        read.tell(workers.added("a", 0));
        std::thread::spawn(move || {
            for index in 0..20 {
                // The time for computing an element.
                std::thread::sleep(Duration::from_millis(20));
                write(&mut producer, 0, index).expect("written");
            }
        });
        expect(&mut read, 0, 0..20);
        assert_eq!(read.reader.stats().bottleneck, Bottleneck::Workers);
    });
}

#[test]
fn an_absent_dispatcher_is_the_bottleneck() {
    watched(|| {
        let workers = Workers::patient(&["a"]);
        let mut read = read(&workers, 64);
        let mut producer = workers.add_silent_task("a", 0, 1);
        read.tell(workers.added("a", 0));
        write(&mut producer, 0, 0).expect("written");
        expect(&mut read, 0, 0..1);
        read.tell(TaskEvent::Contact { is_up: false });
        let _ = read.reader.wait_element(Duration::from_millis(500));
        assert_eq!(read.reader.stats().bottleneck, Bottleneck::Dispatcher);
    });
}
