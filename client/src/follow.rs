//! Follows an iteration: starts a driver for each worker that has a task of it, and tells the dispatcher what was seen.
//!
//! Refuses to know how events come in and reports go out: they are channels, which the control plane's client fills and
//! drains, or a test.

use std::sync::Arc;
use std::time::Duration;

use millstream_dataplane::TaskId;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::driver::{Connector, drive};
use crate::error::ReadError;
use crate::intake::{DoneSplit, Intake, SeenSplits, TaskSource};

/// How often hand-overs are booked that the consumer has not settled itself.
const SETTLE_EVERY: Duration = Duration::from_millis(5);

/// How often a worker is asked again for a task that it did not know: about as long as the dispatcher takes to tell it.
const ASK_AGAIN_EVERY: Duration = Duration::from_millis(20);

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
    },
    /// Elements of these splits are lost.
    SplitsLost {
        /// Which.
        splits: Vec<LostSplits>,
    },
    /// A worker reported that a task failed.
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
    /// No worker is left.
    WorkersLost {
        /// Those that were.
        workers: Vec<String>,
    },
    /// The dispatcher cannot go on.
    Failed(String),
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
    /// These splits were received to their ends.
    Done(Vec<DoneSplit>),
    /// The end of a task arrived, and everything before it.
    Drained {
        /// The task.
        task: TaskId,
    },
}

/// What a reader is connected to.
#[derive(Debug)]
pub struct Feed {
    /// Events of the iteration, in order.
    pub events: mpsc::Receiver<TaskEvent>,
    /// Reports to the dispatcher; lost reports are repeated work for it, never wrong.
    pub reports: mpsc::Sender<Report>,
}

/// Follows until the feed ends or the reader is dropped, which drops this future and the drivers with it.
pub(crate) async fn follow(
    intake: Arc<Intake>,
    connector: Arc<dyn Connector>,
    mut feed: Feed,
    give_up: Duration,
) {
    let mut drivers = JoinSet::new();
    let mut settle = tokio::time::interval(SETTLE_EVERY);
    settle.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut ask_again = tokio::time::interval(ASK_AGAIN_EVERY);
    ask_again.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut is_open = true;
    loop {
        tokio::select! {
            event = feed.events.recv(), if is_open => match event {
                Some(TaskEvent::Added(source)) => {
                    let worker = source.worker.clone();
                    if intake.add_task(source) {
                        drivers.spawn(drive(intake.clone(), connector.clone(), worker, give_up));
                    }
                }
                Some(TaskEvent::Removed { task, reason }) => {
                    tracing::info!(%task, %reason, "task removed");
                    let seen = intake.remove_task(task);
                    // What ended must be known as ended before what was only begun is written off.
                    report_done(&intake, &feed).await;
                    let _ = feed.reports.send(Report::Removed { task, seen }).await;
                }
                Some(TaskEvent::SplitsLost { splits }) => intake.note_lost_splits(&splits),
                Some(TaskEvent::TaskFailed { task, worker, message }) => intake.note_failure(task, &worker, &message),
                Some(TaskEvent::IterationFinished) => intake.finish_iteration(),
                Some(TaskEvent::WorkersLost { workers }) => intake.fail(ReadError::WorkersLost { workers }),
                Some(TaskEvent::Failed(reason)) => intake.fail(ReadError::Dispatcher(reason)),
                None => is_open = false,
            },
            _ = settle.tick() => {
                intake.settle();
                report_done(&intake, &feed).await;
            }
            _ = ask_again.tick() => intake.ask_again(give_up),
            Some(_) = drivers.join_next(), if !drivers.is_empty() => {}
        }
    }
}

/// A full queue of reports is waited for: they are small, and the dispatcher takes thousands a second.
async fn report_done(intake: &Intake, feed: &Feed) {
    let done = intake.take_done_splits();
    if !done.is_empty() {
        let _ = feed.reports.send(Report::Done(done)).await;
    }
    for task in intake.take_drained() {
        let _ = feed.reports.send(Report::Drained { task }).await;
    }
}
