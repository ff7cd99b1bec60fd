//! Consumers of a coordinated read: all consumers hand over the same groups in the same order, even if
//! workers die and links break.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::task::{Context, Waker};

use millstream_client::{MaxOutstanding, ReadError, ReaderConfig, Report, TaskEvent, TaskSource};
use millstream_dataplane::TaskId;
use millstream_dataplane::proto::message::Failure;
use millstream_dataplane::proto::send::Ending;
use millstream_dataplane::transport::memory::Knobs;
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::{Read, Workers, identity, read_with, watched, write};

const NAMES: [&str; 3] = ["a", "b", "c"];

/// The consumers of a coordinated read, and the test's role as their dispatcher.
struct Party {
    workers: Arc<Workers>,
    reads: Vec<Read>,
    /// The tasks and groups that all consumers handed over, in order.
    handed: Vec<(u64, u64)>,
}

impl Party {
    fn new(consumers: u32, max_outstanding: u64) -> Self {
        let workers = Workers::new(&NAMES);
        let read = |consumer| {
            let config = ReaderConfig {
                max_outstanding: MaxOutstanding::Elements(max_outstanding),
                consumer: Some(consumer),
                ..ReaderConfig::default()
            };
            read_with(&workers, config)
        };
        Self {
            reads: (0..consumers).map(read).collect(),
            workers,
            handed: Vec::new(),
        }
    }

    fn consumers(&self) -> NonZeroU32 {
        NonZeroU32::new(self.reads.len() as u32).expect("at least one consumer")
    }

    fn tell(&self, event: &TaskEvent) {
        for read in &self.reads {
            read.tell(event.clone());
        }
    }

    /// Starts an endless task on a worker, and announces the task to all consumers.
    fn start(&self, name: &str, task: u64, start_round: Option<u64>) {
        self.start_with(name, task, start_round, u64::MAX, Ending::Exhausted);
    }

    fn start_with(&self, name: &str, task: u64, start_round: Option<u64>, count: u64, ending: Ending) {
        let mut producer = self.workers.add_coordinated_task(name, task, self.consumers());
        std::thread::spawn(move || {
            for index in 0..count {
                if producer.wait_started().is_err() || producer.wait_room().is_err() {
                    return;
                }
                write(&mut producer, task, index).expect("written");
            }
            producer.finish(ending);
        });
        for (consumer, read) in (0..).zip(&self.reads) {
            read.tell(TaskEvent::Added(self.source(name, task, consumer, start_round)));
        }
    }

    fn source(&self, name: &str, task: u64, consumer: u32, start_round: Option<u64>) -> TaskSource {
        let client = 1 + u64::from(consumer);
        TaskSource {
            start_round,
            ..self.workers.source(name, task, client, Some(consumer))
        }
    }

    /// Makes every consumer hand over `count` elements. Checks that the elements of all consumers belong to
    /// the same groups, in order.
    fn read(&mut self, count: usize) {
        let taken: Vec<Vec<(u64, u64)>> = std::thread::scope(|scope| {
            let readers: Vec<_> = self
                .reads
                .iter_mut()
                .map(|read| {
                    scope.spawn(move || {
                        let next = || {
                            read.reader
                                .next_element()
                                .expect("no failure")
                                .expect("an element")
                        };
                        std::iter::repeat_with(next)
                            .take(count)
                            .map(|element| identity(&element))
                            .collect()
                    })
                })
                .collect();
            readers
                .into_iter()
                .map(|reader| reader.join().expect("no panic"))
                .collect()
        });
        self.note(&taken);
    }

    /// Makes every consumer read to the end. Each consumer is told of the end of the iteration once it has
    /// reported the end of `tasks` tasks.
    fn read_to_the_end(&mut self, tasks: usize) {
        let taken: Vec<Vec<(u64, u64)>> = std::thread::scope(|scope| {
            let readers: Vec<_> = self
                .reads
                .iter_mut()
                .map(|read| {
                    let Read {
                        reader,
                        events,
                        reports,
                        ..
                    } = read;
                    scope.spawn(move || {
                        let reports = std::iter::from_fn(|| reports.blocking_recv());
                        let ends = reports.filter(|report| matches!(report, Report::Drained { .. }));
                        assert_eq!(ends.take(tasks).count(), tasks, "the reader is gone");
                        let told = events.blocking_send(TaskEvent::IterationFinished);
                        assert!(told.is_ok(), "the reader is gone");
                    });
                    scope.spawn(move || {
                        let next = || reader.next_element().expect("no failure");
                        std::iter::from_fn(next)
                            .map(|element| identity(&element))
                            .collect()
                    })
                })
                .collect();
            readers
                .into_iter()
                .map(|reader| reader.join().expect("no panic"))
                .collect()
        });
        self.note(&taken);
    }

    /// Records what each consumer handed over, after checking that all of them handed over the same groups.
    fn note(&mut self, taken: &[Vec<(u64, u64)>]) {
        let n = taken.len() as u64;
        let groups = |consumer: usize| {
            let of_consumer = taken[consumer].iter();
            of_consumer.map(move |(task, index)| {
                assert_eq!(index % n, consumer as u64, "element {index} of task {task}");
                (*task, index / n)
            })
        };
        for consumer in 1..taken.len() {
            assert!(
                groups(consumer).eq(groups(0)),
                "consumer {consumer} is out of step"
            );
        }
        self.handed.extend(groups(0));
    }

    /// Returns the next report of each consumer, skipping reports of splits and of broken links.
    fn reports(&mut self) -> Vec<Report> {
        let next = |read: &mut Read| loop {
            match read.reports.blocking_recv().expect("the reader lives") {
                Report::Done { .. } | Report::Suspect { .. } => {}
                report @ (Report::Removed { .. }
                | Report::Waiting { .. }
                | Report::Drained { .. }
                | Report::Ready { .. }) => {
                    return report;
                }
            }
        };
        self.reads.iter_mut().map(next).collect()
    }

    /// Lets every consumer ask for an element, and expects the failure of a task with this text.
    fn expect_failure(&mut self, text: &str) {
        for read in &mut self.reads {
            let error = read.reader.next_element().expect_err("the task failed");
            assert!(error.to_string().contains(text), "{error}");
        }
    }

    /// Waits until each consumer has reported the end of `tasks` tasks.
    fn wait_for_ends(&mut self, tasks: u64) {
        for _ in 0..tasks {
            for report in self.reports() {
                assert!(matches!(report, Report::Drained { .. }), "{report:?}");
            }
        }
    }

    /// Receives from each consumer the earliest round in which a late task can start, and announces the
    /// start. Returns that round.
    fn settle_start(&mut self, task: u64) -> u64 {
        let earliest = self.reports().into_iter().map(|report| match report {
            Report::Ready { task: of, earliest } if of == TaskId(task) => earliest,
            other @ (Report::Ready { .. }
            | Report::Removed { .. }
            | Report::Done { .. }
            | Report::Suspect { .. }
            | Report::Waiting { .. }
            | Report::Drained { .. }) => {
                panic!("{other:?}")
            }
        });
        let start_round = earliest.max().expect("at least one consumer");
        let task = TaskId(task);
        self.tell(&TaskEvent::Scheduled { task, start_round });
        start_round
    }

    /// Stops a worker, removes its task, and announces the verdict on the task. Returns the number of groups
    /// in the verdict.
    fn lose(&mut self, name: &str, task: u64) -> u64 {
        self.workers.stop(name);
        self.tell(&TaskEvent::Removed {
            task: TaskId(task),
            reason: "its worker is gone".to_owned(),
            has_left: false,
        });
        let released = self.reports().into_iter().map(|report| match report {
            Report::Removed { task: of, seen } if of == TaskId(task) => seen.released,
            other @ (Report::Ready { .. }
            | Report::Removed { .. }
            | Report::Done { .. }
            | Report::Suspect { .. }
            | Report::Waiting { .. }
            | Report::Drained { .. }) => {
                panic!("{other:?}")
            }
        });
        let groups = released.max().expect("at least one consumer");
        let task = TaskId(task);
        self.tell(&TaskEvent::Concluded { task, groups });
        groups
    }

    /// Returns the groups of a task that were handed over.
    fn of_task(&self, task: u64) -> Vec<u64> {
        let of_task = self.handed.iter().filter(|(of, _)| *of == task);
        of_task.map(|(_, group)| *group).collect()
    }
}

impl Drop for Party {
    fn drop(&mut self) {
        for name in NAMES {
            self.workers.stop(name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..rounds(24) })]

    /// D6.1, D7.1, D7.3, D7.4, D7.6: consumers go through the tasks in rounds, even with few outstanding
    /// elements and breaking links.
    #[test]
    fn consumers_take_turns_in_every_group(
        consumers in 1u32..5,
        tasks in 1u64..4,
        max_outstanding in 1u64..12,
        cuts in proptest::collection::vec((0..NAMES.len(), 0u64..30, 1usize..4), 0..6),
    ) {
        watched(move || {
            let mut party = Party::new(consumers, max_outstanding);
            for (worker, frames, group) in cuts {
                let knobs = Knobs { cut_after_frames: Some(frames), reversed_in_groups_of: group };
                party.workers.misbehave(NAMES[worker], [knobs]);
            }
            for task in 0..tasks {
                party.start(NAMES[task as usize], task, Some(0));
            }
            party.tell(&TaskEvent::CaughtUp);
            party.read(40);
            let turns = (0..).flat_map(|round| (0..tasks).map(move |task| (task, round)));
            assert_eq!(party.handed, turns.take(40).collect::<Vec<_>>());
        });
    }

    /// C9.7, D7.5: finite tasks of any length end in the same step for all consumers. The elements of an
    /// incomplete group are left out.
    #[test]
    fn consumers_reach_the_end_in_one_step(
        consumers in 1u32..5,
        max_outstanding in 1u64..12,
        elements in proptest::collection::vec(0u64..20, 1..4),
        cuts in proptest::collection::vec((0..NAMES.len(), 0u64..30, 1usize..4), 0..4),
    ) {
        watched(move || {
            let mut party = Party::new(consumers, max_outstanding);
            for (worker, frames, group) in cuts {
                let knobs = Knobs { cut_after_frames: Some(frames), reversed_in_groups_of: group };
                party.workers.misbehave(NAMES[worker], [knobs]);
            }
            let groups: Vec<u64> = elements.iter().map(|count| count / u64::from(consumers)).collect();
            for ((name, task), count) in NAMES.iter().zip(0..).zip(&elements) {
                party.start_with(name, task, Some(0), *count, Ending::Exhausted);
            }
            party.tell(&TaskEvent::CaughtUp);
            party.read_to_the_end(elements.len());
            let takes_part = |round: u64, task: u64| round < groups[task as usize];
            let tasks = elements.len() as u64;
            let turns = (0..20).flat_map(|round| (0..tasks).map(move |task| (task, round)));
            let expected: Vec<_> = turns.filter(|(task, round)| takes_part(*round, *task)).collect();
            assert_eq!(party.handed, expected);
        });
    }

    /// C9, D7.3: after the death of a worker, all consumers stop its task at the same group. A new worker's
    /// task starts in the same round for all consumers.
    #[test]
    fn consumers_stay_in_step_when_workers_change(
        consumers in 1u32..4,
        max_outstanding in 1u64..12,
        before in 0usize..20,
    ) {
        watched(move || {
            let mut party = Party::new(consumers, max_outstanding);
            party.start("a", 0, Some(0));
            party.start("b", 1, Some(0));
            party.tell(&TaskEvent::CaughtUp);
            party.read(before);
            let groups = party.lose("b", 1);
            party.read(20);
            let kept = party.of_task(1);
            assert!(kept.len() as u64 <= groups && kept.iter().copied().eq(0..kept.len() as u64));
            party.workers.start("b");
            party.start("b", 2, None);
            party.settle_start(2);
            party.read(30);
            assert_eq!(party.of_task(1).len() as u64, groups, "the verdict was not carried out");
            assert!(party.of_task(2).len() > 2);
        });
    }
}

/// C9: the user hands over no element of the promised round before the start of the late task is known. Once
/// the start is known, the task takes part.
#[test]
fn no_round_begins_before_its_start_is_known() {
    watched(|| {
        let mut party = Party::new(1, 8);
        party.start("a", 0, Some(0));
        party.tell(&TaskEvent::CaughtUp);
        party.read(5);
        party.start("b", 1, None);
        let ready = Report::Ready {
            task: TaskId(1),
            earliest: 5,
        };
        assert_eq!(party.reports(), std::slice::from_ref(&ready));
        // The answer may have been lost, so that the dispatcher asks again.
        party.reads[0].tell(TaskEvent::Added(party.source("b", 1, 0, None)));
        assert_eq!(party.reports(), [ready]);
        // The next groups are released, so that only the missing start can hold the reader back.
        party.workers.log("a").wait(|traffic| traffic.released > 5);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(
            party.reads[0].reader.poll_element(&mut cx).is_pending(),
            "the consumer began a round before the start was known"
        );
        let task = TaskId(1);
        party.tell(&TaskEvent::Scheduled { task, start_round: 6 });
        party.read(5);
        assert_eq!(party.handed[5..], [(0, 5), (0, 6), (1, 0), (0, 7), (1, 1)]);
    });
}

/// Checks C9.
#[test]
fn a_removed_startless_task_delays_nobody() {
    watched(|| {
        let mut party = Party::new(2, 8);
        party.start("a", 0, Some(0));
        party.tell(&TaskEvent::CaughtUp);
        party.read(5);
        for (task, is_removed) in [(1, true), (2, false)] {
            party.start("b", task, None);
            party.reports();
            let task = TaskId(task);
            if is_removed {
                let (reason, has_left) = ("its worker is gone".to_owned(), false);
                party.tell(&TaskEvent::Removed {
                    task,
                    reason,
                    has_left,
                });
            } else {
                party.tell(&TaskEvent::Ended { task });
            }
            party.read(5);
            if is_removed {
                party.reports();
            }
        }
        assert_eq!(party.of_task(0), (0..15).collect::<Vec<_>>());
    });
}

/// D7.5: consumers that have an element of the incomplete group fail in the same step as consumers without
/// one.
#[test]
fn all_consumers_fail_in_the_same_step() {
    let torn = Failure::new("data", "torn", "", "");
    watched(move || {
        let mut party = Party::new(3, 4);
        party.start_with("a", 0, Some(0), 7, Ending::Failed(torn));
        party.start("b", 1, Some(0));
        party.tell(&TaskEvent::CaughtUp);
        party.read(4);
        assert_eq!(party.handed, [(0, 0), (1, 0), (0, 1), (1, 1)]);
        party.expect_failure("torn");
        party.expect_failure("torn");
    });
}

/// D7.5: after the end of a task, the consumers continue with the other tasks. A late task starts in the same
/// round for all of them.
#[test]
fn an_ended_task_leaves_the_rounds() {
    watched(|| {
        let mut party = Party::new(3, 4);
        party.start_with("a", 0, Some(0), 7, Ending::Exhausted);
        party.start("b", 1, Some(0));
        party.tell(&TaskEvent::CaughtUp);
        party.read(10);
        assert_eq!(party.of_task(0), [0, 1]);
        assert_eq!(party.of_task(1), (0..8).collect::<Vec<_>>());
        party.wait_for_ends(1);
        party.start("c", 2, None);
        assert_eq!(party.settle_start(2), 8);
        party.read(4);
        assert_eq!(party.handed[10..], [(1, 8), (2, 0), (1, 9), (2, 1)]);
    });
}

/// C9.5, C9.7: a consumer that has the end of a removed task still acknowledges the removal. The verdict
/// changes nothing for it.
#[test]
fn a_removed_task_that_ended_keeps_its_groups() {
    watched(|| {
        let mut party = Party::new(2, 8);
        party.start_with("a", 0, Some(0), 8, Ending::Exhausted);
        party.start("b", 1, Some(0));
        party.tell(&TaskEvent::CaughtUp);
        party.read(2);
        party.wait_for_ends(1);
        assert_eq!(party.lose("a", 0), 4);
        party.read(10);
        assert_eq!(party.of_task(0), [0, 1, 2, 3]);
    });
}

/// D7.5, C9.7: a failure that the dispatcher reports early does not make any consumer fail before the others.
#[test]
fn a_late_consumer_fails_where_others_do() {
    watched(|| {
        let mut party = Party::new(2, 8);
        party.start_with("a", 0, Some(0), 7, torn());
        party.tell(&failed());
        party.tell(&TaskEvent::CaughtUp);
        party.read(3);
        assert_eq!(party.of_task(0), [0, 1, 2]);
        party.expect_failure("torn at last");
        let task = TaskId(0);
        assert_eq!(
            party.reports(),
            [Report::Drained { task }, Report::Drained { task }]
        );
    });
}

/// C9.7: a worker that did not know its task yet reports the failure later. A consumer that was refused
/// therefore asks again, and does not fail before the others.
#[test]
fn a_refused_consumer_fails_where_others_do() {
    watched(|| {
        let mut party = Party::new(2, 8);
        for (consumer, read) in (0..).zip(&party.reads) {
            read.tell(TaskEvent::Added(party.source("a", 0, consumer, Some(0))));
        }
        party.workers.log("a").wait(|traffic| traffic.refused >= 2);
        party.start_with("a", 0, Some(0), 7, torn());
        party.tell(&failed());
        party.tell(&TaskEvent::CaughtUp);
        party.read(3);
        party.expect_failure("torn at last");
    });
}

/// D7.5: the failure arrives after all released groups, and not before the task's turn.
#[test]
fn a_forgotten_failure_arrives_in_its_tasks_turn() {
    watched(|| {
        // With one credit, no element arrives before its turn.
        let mut party = Party::new(1, 1);
        party.start("a", 0, Some(0));
        party.start("b", 1, Some(0));
        party.tell(&TaskEvent::CaughtUp);
        party.read(5);
        party.tell(&failed());
        party.workers.stop("a");
        party.tell(&TaskEvent::Ended { task: TaskId(0) });
        // The answer for a later task shows that the reader has handled the end.
        party.start("c", 2, None);
        assert_eq!(party.settle_start(2), 3);
        party.read(1);
        assert_eq!(party.handed[5..], [(1, 2)]);
        party.expect_failure("torn");
    });
}

/// Returns the failure that the worker reports, which differs from the dispatcher's.
fn torn() -> Ending {
    Ending::Failed(Failure::new("data", "torn at last", "", ""))
}

fn failed() -> TaskEvent {
    TaskEvent::TaskFailed {
        task: TaskId(0),
        worker: "a".into(),
        failure: Failure::new("task", "torn", "", ""),
    }
}

/// Checks C9.
#[test]
fn missing_consumers_are_named_behind_what_is_released() {
    watched(|| {
        let mut party = Party::new(2, 8);
        party.start("a", 0, Some(0));
        party.tell(&TaskEvent::CaughtUp);
        party.read(3);
        let consumers = vec![1, 4];
        party.tell(&TaskEvent::ConsumersLost {
            consumers: consumers.clone(),
        });
        let lost = ReadError::ConsumersLost { consumers };
        assert!(lost.to_string().contains("[1, 4]"), "{lost}");
        for read in &mut party.reads {
            let error = loop {
                if let Err(error) = read.reader.next_element() {
                    break error;
                }
            };
            assert_eq!(error, lost);
        }
    });
}

/// C9: a message that would put a consumer out of step ends the reader.
#[test]
fn a_consumer_ends_rather_than_leave_the_step() {
    let late = TaskEvent::Scheduled {
        task: TaskId(1),
        start_round: 2,
    };
    let lacking = TaskEvent::Concluded {
        task: TaskId(0),
        groups: 1 << 40,
    };
    let unsaid = TaskEvent::Ended { task: TaskId(0) };
    for event in [late, lacking, unsaid] {
        watched(move || {
            let mut party = Party::new(1, 8);
            party.start("a", 0, Some(0));
            party.tell(&TaskEvent::CaughtUp);
            party.read(5);
            party.start("b", 1, None);
            party.reports();
            party.tell(&event);
            let error = loop {
                if let Err(error) = party.reads[0].reader.next_element() {
                    break error;
                }
            };
            assert!(matches!(error, ReadError::Dispatcher(_)), "{event:?}: {error}");
        });
    }
}
