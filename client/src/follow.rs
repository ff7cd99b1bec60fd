//! Follows an iteration: starts a driver for each worker that has a task of it, and tells the dispatcher what was seen.
//!
//! Never waits for one thing alone: what cannot be reported yet stays with the intake. Refuses to know how events come in
//! and reports go out: they are channels, which the control plane's client fills and drains, or a test.

use std::convert::Infallible;
use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use millstream_dataplane::TaskId;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::driver::{Connector, drive};
use crate::error::ReadError;
use crate::guard::guard;
use crate::intake::{Intake, SeenSplits, TaskSource};
use crate::pace::PaceMeter;
use crate::remains::Remains;

/// How often hand-overs are booked that the consumer has not settled itself, and reports are made: often enough for the
/// dispatcher, seldom enough that many splits go into one.
const TICK: Duration = Duration::from_millis(5);

/// How often once there was nothing to book or report for a while: a reader that waits costs its trainer next to nothing. Also how
/// often a worker is asked again for a task that it did not know: about as long as the dispatcher takes to tell it.
const IDLE_TICK: Duration = Duration::from_millis(20);

/// How often `Auto` looks at the rate, at most: over several round trips of all but the longest paths.
const RESIZE_EVERY: Duration = Duration::from_millis(100);

/// How long the links stay when the reader is gone, so that its workers hear that it wants nothing more. One that does
/// not keeps what it sent for a reader that might come back.
const FAREWELL: Duration = Duration::from_millis(100);

/// What happens to an iteration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskEvent {
    /// A worker has a task for this reader.
    Added(TaskSource),
    /// A task is no more; nothing further comes of it. Answered with [`Report::Removed`].
    Removed {
        /// The task.
        task: TaskId,
        /// Why, for people.
        reason: String,
        /// Whether its worker left by itself, as when it is stopped.
        has_left: bool,
    },
    /// Nothing more comes of a task: what it produced was delivered. Its worker may not be there to say so.
    Ended {
        /// The task.
        task: TaskId,
    },
    /// Elements of these splits are lost. Those named before may be among them.
    SplitsLost {
        /// The splits.
        splits: Vec<LostSplits>,
        /// The address of the worker that had them; empty if it is not known.
        worker: String,
    },
    /// A worker reported that a task failed. Comes before the end of the iteration, also for who joins late.
    TaskFailed {
        /// The task.
        task: TaskId,
        /// Its worker.
        worker: String,
        /// What it said.
        message: String,
    },
    /// No further task comes.
    IterationFinished,
    /// Everything was told that held when this reader came.
    CaughtUp,
    /// A task of a coordinated read that was added without a start takes part from this round on.
    Scheduled {
        /// The task.
        task: TaskId,
        /// The first round that it is in.
        start_round: u64,
    },
    /// A removed task of a coordinated read gives so many groups in all.
    Concluded {
        /// The task.
        task: TaskId,
        /// How many of its groups every consumer hands over.
        groups: u64,
    },
    /// These consumers of a coordinated read did not come, or are gone.
    ConsumersLost {
        /// Their numbers.
        consumers: Vec<u32>,
    },
    /// No worker is left.
    WorkersLost {
        /// Those that were.
        workers: Vec<String>,
    },
    /// The dispatcher is in reach again, or out of it.
    Contact {
        /// Whether it is in reach.
        is_up: bool,
    },
    /// The service ends: nothing follows.
    ShutDown {
        /// Who has asked for it, in words.
        by: String,
    },
    /// Whether the dispatcher may have ended this reader's lease without its knowledge: meanwhile nothing is handed over (C4.4).
    LeaseDoubted(bool),
    /// The dispatcher has ended this reader's lease (C4.3).
    Lapsed,
    /// The dispatcher cannot go on.
    Failed(String),
    /// The dispatcher was out of reach for too long.
    Unreachable(String),
}

/// Splits that will not be read again although elements of them are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostSplits {
    /// The source they are of, depth first.
    pub source: u32,
    /// The pass over it.
    pub repetition: u64,
    /// The first of them.
    pub first: u64,
    /// How many.
    pub count: u64,
}

/// What the dispatcher is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// A removed task is dropped, and this was seen of it.
    Removed {
        /// The task.
        task: TaskId,
        /// The splits it gave elements of.
        seen: SeenSplits,
    },
    /// The user is done with these splits, all of which had arrived.
    Done {
        /// The task they were leased to.
        task: TaskId,
        /// Their leases, ascending, apart from each other.
        leases: Vec<RangeInclusive<u64>>,
    },
    /// These splits were received to their ends, and elements of them wait for the user (C5.8).
    Waiting {
        /// The task they were leased to.
        task: TaskId,
        /// Their leases, ascending, apart from each other.
        leases: Vec<RangeInclusive<u64>>,
    },
    /// The end of a task arrived, and everything before it.
    Drained {
        /// The task.
        task: TaskId,
    },
    /// The link to a worker was lost, which may be the worker's death.
    Suspect {
        /// The worker's address.
        worker: String,
    },
    /// A task that was added without a start can take part from this round on.
    Ready {
        /// The task.
        task: TaskId,
        /// The first round that the user has not begun, and does not begin before the start is known.
        earliest: u64,
    },
}

/// What a reader is connected to.
#[derive(Debug)]
pub struct Feed {
    /// Events of the iteration, in order.
    pub events: mpsc::Receiver<TaskEvent>,
    /// Reports to the dispatcher, each to be delivered before the next: what a task's removal leaves out was reported
    /// before. What finds no room here is joined with what follows. The last ones come when the other end of `events` is gone.
    pub reports: mpsc::Sender<Report>,
    /// Where the reader notes how fast it goes.
    pub pace: Arc<PaceMeter>,
    /// The dispatcher's address, for people.
    pub dispatcher: String,
}

/// How long is waited for whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// For a worker that the dispatcher holds to be alive.
    pub(crate) worker: Duration,
    /// For a first worker.
    pub(crate) workers: Duration,
}

/// Follows until the reader is gone, which drops the other end of `gone`, and ends the drivers and the feed with itself.
pub(crate) async fn follow(
    intake: Arc<Intake>,
    connector: Arc<dyn Connector>,
    feed: Feed,
    patience: Patience,
    mut gone: oneshot::Receiver<Infallible>,
) {
    let (mut events, reports, dispatcher) = (feed.events, feed.reports, feed.dispatcher);
    let mut drivers = JoinSet::new();
    let mut removals = JoinSet::new();
    let mut ticks = Ticks::new(Instant::now());
    let mut tick = pin!(sleep_until(ticks.due));
    let mut is_open = true;
    loop {
        tokio::select! {
            event = events.recv(), if is_open => match event {
                Some(event) => match obey(&intake, event) {
                    // Others may wait for the answer.
                    Obeyed::Done => {
                        pass_reports(&intake, &reports);
                    }
                    Obeyed::Drive(worker) => {
                        let what = format!("the driver of the link to worker {worker}");
                        let driver = drive(intake.clone(), connector.clone(), worker, patience.worker);
                        drivers.spawn(guard(intake.clone(), what, driver));
                        pass_reports(&intake, &reports);
                    }
                    Obeyed::LookThrough(task, remains) => {
                        let alloc = intake.alloc().clone();
                        // May decompress what waits, which would hold up the lane's sockets.
                        removals.spawn_blocking(move || (task, remains.look_through(&*alloc)));
                    }
                },
                None => is_open = false,
            },
            Some(removal) = removals.join_next(), if !removals.is_empty() => {
                match removal {
                    Ok((task, seen)) => intake.note_removed(task, seen),
                    // The dispatcher goes on without an answer after a while, taking all for seen (C6.3).
                    Err(error) => tracing::error!(%error, "what is left of a removed task could not be looked through"),
                }
                pass_reports(&intake, &reports);
            }
            () = &mut tick => {
                intake.note_wait();
                let is_busy = intake.tick() | pass_reports(&intake, &reports);
                let due = ticks.pass(Instant::now(), is_busy);
                if due.is_to_ask_again {
                    intake.ask_again(patience.worker);
                    intake.look_for_tasks(&dispatcher, patience.workers);
                }
                if let Some(elapsed) = due.to_resize {
                    intake.resize_auto(elapsed);
                }
                tick.as_mut().reset(ticks.due);
            }
            Some(_) = drivers.join_next(), if !drivers.is_empty() => {}
            _ = &mut gone => break,
        }
    }
    intake.tick();
    // The feed hears by this that the reader is gone, and bounds how long the last reports may take.
    drop(events);
    tokio::join!(pass_last_reports(&intake, reports), end_links(&intake, drivers));
}

/// Ends the links, once workers have heard that the reader wants nothing more.
async fn end_links(intake: &Intake, drivers: JoinSet<()>) {
    if !intake.is_over() {
        tokio::time::sleep(FAREWELL).await;
    }
    drop(drivers);
}

/// What is left to do for an event.
#[derive(Debug)]
pub(crate) enum Obeyed {
    Done,
    /// Keep a link to this worker.
    Drive(String),
    /// Say what was seen of this task.
    LookThrough(TaskId, Remains),
}

/// Tells the intake of an event.
pub(crate) fn obey(intake: &Intake, event: TaskEvent) -> Obeyed {
    match event {
        TaskEvent::Added(source) => {
            let worker = source.worker.address.clone();
            if intake.add_task(source) {
                return Obeyed::Drive(worker);
            }
        }
        TaskEvent::Removed {
            task,
            reason,
            has_left,
        } => {
            if !has_left {
                intake.note_worker_lost(task, &reason);
            }
            return Obeyed::LookThrough(task, intake.remove_task(task, &reason));
        }
        TaskEvent::Ended { task } => intake.end_task(task),
        TaskEvent::SplitsLost { splits, worker } => intake.note_lost_splits(&worker, &splits),
        TaskEvent::TaskFailed {
            task,
            worker,
            message,
        } => intake.note_failure(task, &worker, &message),
        TaskEvent::IterationFinished => intake.finish_iteration(),
        TaskEvent::CaughtUp => intake.open_schedule(),
        TaskEvent::Scheduled { task, start_round } => intake.settle_start(task, start_round),
        TaskEvent::Concluded { task, groups } => intake.conclude_task(task, groups),
        TaskEvent::ConsumersLost { consumers } => intake.fail(ReadError::ConsumersLost { consumers }),
        TaskEvent::WorkersLost { workers } => intake.fail(ReadError::WorkersLost { workers }),
        TaskEvent::Contact { is_up } => intake.note_contact(is_up),
        TaskEvent::ShutDown { by } => intake.shut_down(by),
        TaskEvent::LeaseDoubted(is_doubted) => intake.fence(is_doubted, None),
        TaskEvent::Lapsed => intake.fence(true, Some(ReadError::Lapsed)),
        TaskEvent::Failed(reason) => intake.fail(ReadError::Dispatcher(reason)),
        TaskEvent::Unreachable(reason) => intake.fail(ReadError::DispatcherUnreachable(reason)),
    }
    Obeyed::Done
}

/// Passes on everything that is left, as fast as it is taken. Ends when nobody takes reports any more.
async fn pass_last_reports(intake: &Intake, reports: mpsc::Sender<Report>) {
    while let Ok(room) = reports.reserve().await
        && let Some(report) = intake.next_report()
    {
        room.send(report);
    }
}

/// Passes on what there is room for. False if there was nothing.
fn pass_reports(intake: &Intake, reports: &mpsc::Sender<Report>) -> bool {
    let mut has_passed = false;
    while let Ok(room) = reports.try_reserve() {
        let Some(report) = intake.next_report() else {
            break;
        };
        room.send(report);
        has_passed = true;
    }
    has_passed
}

/// When what is done from time to time is due. Times that are late put the next ones off.
#[derive(Debug)]
struct Ticks {
    due: Instant,
    pause: Duration,
    asked_again_at: Instant,
    resized_at: Instant,
}

/// What a tick is for, beside booking and reporting.
#[derive(Debug, PartialEq, Eq)]
struct Due {
    is_to_ask_again: bool,
    /// How long ago it was done last.
    to_resize: Option<Duration>,
}

impl Ticks {
    fn new(now: Instant) -> Self {
        Self {
            due: now,
            pause: TICK,
            asked_again_at: now,
            resized_at: now,
        }
    }

    /// One was done at `now`; `is_busy` says that there was something to book or report.
    fn pass(&mut self, now: Instant, is_busy: bool) -> Due {
        self.pause = if is_busy {
            TICK
        } else {
            (2 * self.pause).min(IDLE_TICK)
        };
        self.due = now + self.pause;
        let is_to_ask_again = now - self.asked_again_at >= IDLE_TICK;
        if is_to_ask_again {
            self.asked_again_at = now;
        }
        let since = now - self.resized_at;
        let to_resize = (since >= RESIZE_EVERY).then_some(since);
        if to_resize.is_some() {
            self.resized_at = now;
        }
        Due {
            is_to_ask_again,
            to_resize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks in a second, with something to do at those that `is_busy` says.
    fn count(is_busy: impl Fn(usize) -> bool) -> (usize, usize, Duration) {
        let start = Instant::now();
        let mut ticks = Ticks::new(start);
        let (mut passed, mut asked, mut resized) = (0, 0, Duration::ZERO);
        while ticks.due < start + Duration::from_secs(1) {
            let due = ticks.pass(ticks.due, is_busy(passed));
            passed += 1;
            asked += usize::from(due.is_to_ask_again);
            resized += due.to_resize.unwrap_or_default();
        }
        (passed, asked, resized)
    }

    #[test]
    fn a_reader_with_nothing_to_report_looks_seldom_and_forgets_nothing() {
        let (busy, idle, seldom) = (count(|_| true), count(|_| false), count(|tick| tick % 8 == 0));
        assert_eq!(busy.0, 200);
        assert!(idle.0 <= 52 && seldom.0 < 80, "{idle:?}, {seldom:?}");
        for (_, asked, resized) in [busy, idle, seldom] {
            assert!((30..=51).contains(&asked), "{asked}");
            assert!(resized > Duration::from_millis(880), "{resized:?}");
        }
    }
}
