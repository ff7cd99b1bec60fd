//! Follows an iteration: starts a driver for each worker that has a task of the iteration, and sends the
//! reader's reports to the dispatcher.
//!
//! The loop never waits for a single channel: reports that find the channel full stay in the reader core.
//! This file does not know the other ends of its channels. The dispatcher's client fills and drains the
//! channels, or a test does.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::connector::Connector;
use crate::driver::drive;
use crate::feed::Feed;
use crate::guard::guard;
use crate::intake::Intake;
use crate::reader_core::{Obeyed, ReaderCore};
use crate::report::Report;
use crate::waiter::Waiter;

/// The time between two bookings of hand-overs that the consumer has not settled, and between two reports.
/// The interval is short enough for the dispatcher, and long enough for one report to carry many splits.
const TICK: Duration = Duration::from_millis(5);

/// The tick interval of an idle reader, which keeps its cost to the trainer close to zero. A subscription to
/// a task that the worker did not know is repeated at the same interval. The interval is about the time in
/// which the dispatcher informs the worker of the task.
const IDLE_TICK: Duration = Duration::from_millis(20);

/// The shortest time between two adjustments of `Auto` to the measured rate. Several round trips of most
/// paths fit into the interval.
const RESIZE_EVERY: Duration = Duration::from_millis(100);

/// The time for which links stay open after the reader was dropped, so that its workers receive the
/// cancellations. A worker that misses the cancellation keeps sent elements in case the reader returns.
const GOODBYE: Duration = Duration::from_millis(100);

/// The time limits of the reader's waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// The time limit for reaching a worker that the dispatcher considers alive.
    pub(crate) worker: Duration,
    /// The time limit for a first worker to appear.
    pub(crate) workers: Duration,
}

/// Follows the iteration until the reader is dropped, which closes `gone`. After that, ends the drivers of
/// the links and drops the feed.
pub(crate) async fn follow(
    waiter: Arc<Waiter>,
    connector: Arc<dyn Connector>,
    feed: Feed,
    patience: Patience,
    mut gone: oneshot::Receiver<Infallible>,
) {
    let intake = waiter.intake();
    let (mut events, reports, dispatcher) = (feed.events, feed.reports, feed.dispatcher);
    let mut drivers = JoinSet::new();
    let mut removals = JoinSet::new();
    let mut ticks = Ticks::new(Instant::now());
    let mut tick = pin!(sleep_until(ticks.due));
    let mut is_open = true;
    loop {
        tokio::select! {
            event = events.recv(), if is_open => match event {
                Some(event) => match intake.obey(event) {
                    // Other readers may wait for this answer.
                    Obeyed::Done => {
                        pass_reports(intake, &reports);
                    }
                    Obeyed::Drive(worker) => {
                        let what = format!("the driver of the link to worker {worker}");
                        let driver = drive(waiter.clone(), connector.clone(), worker, patience.worker);
                        drivers.spawn(guard(intake.clone(), what, driver));
                        pass_reports(intake, &reports);
                    }
                    Obeyed::LookThrough(task, remains) => {
                        let alloc = intake.alloc().clone();
                        // Looking through the elements may decompress them, which would delay the lane
                        // thread's sockets.
                        removals.spawn_blocking(move || (task, remains.look_through(&*alloc)));
                    }
                },
                None => is_open = false,
            },
            Some(removal) = removals.join_next(), if !removals.is_empty() => {
                match removal {
                    Ok((task, seen)) => intake.act(|core| core.note_removed(task, seen)),
                    // The dispatcher continues without the answer after a timeout, and treats all splits as
                    // seen (C6.3).
                    Err(error) => tracing::error!(%error, "failed to search the remaining elements of a removed task for their splits"),
                }
                pass_reports(intake, &reports);
            }
            () = &mut tick => {
                intake.act(ReaderCore::note_wait);
                let is_busy = intake.tick() | pass_reports(intake, &reports);
                let due = ticks.pass(Instant::now(), is_busy);
                if due.is_to_ask_again {
                    intake.ask_again(patience.worker);
                    intake.look_for_tasks(&dispatcher, patience.workers);
                }
                if let Some(elapsed) = due.to_resize {
                    intake.act(|core| core.resize_auto(elapsed));
                }
                tick.as_mut().reset(ticks.due);
            }
            Some(_) = drivers.join_next(), if !drivers.is_empty() => {}
            _ = &mut gone => break,
        }
    }
    intake.tick();
    // Dropping `events` shows the feed that the reader has ended. The feed then limits the time for the last
    // reports.
    drop(events);
    tokio::join!(pass_last_reports(intake, reports), end_links(intake, drivers));
}

/// Ends the links, after workers had time to receive the reader's cancellations.
async fn end_links(intake: &Intake, drivers: JoinSet<()>) {
    if !intake.look(ReaderCore::is_over) {
        tokio::time::sleep(GOODBYE).await;
    }
    drop(drivers);
}

/// Sends all remaining reports as fast as the receiver takes them. Ends early if the receiver is dropped.
async fn pass_last_reports(intake: &Intake, reports: mpsc::Sender<Report>) {
    while let Ok(room) = reports.reserve().await
        && let Some(report) = intake.act(ReaderCore::next_report)
    {
        room.send(report);
    }
}

/// Sends reports until the channel is full. Returns whether any report was sent.
fn pass_reports(intake: &Intake, reports: &mpsc::Sender<Report>) -> bool {
    let mut has_passed = false;
    while let Ok(room) = reports.try_reserve() {
        let Some(report) = intake.act(ReaderCore::next_report) else {
            break;
        };
        room.send(report);
        has_passed = true;
    }
    has_passed
}

/// The due times of periodic work. A late tick delays the ticks that follow.
#[derive(Debug)]
struct Ticks {
    due: Instant,
    pause: Duration,
    asked_again_at: Instant,
    resized_at: Instant,
}

/// The periodic work of one tick, apart from booking and reporting.
#[derive(Debug, PartialEq, Eq)]
struct Due {
    is_to_ask_again: bool,
    /// The time since the last adjustment of `Auto`; `None` if no adjustment is due.
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

    /// Records a tick at `now`, and returns the work that is due. `is_busy` says whether the tick had
    /// something to book or report.
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

    /// Counts the ticks, the repeated requests and the resized time within one second. `is_busy` says which
    /// ticks find work.
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
    fn an_idle_reader_looks_rarely_and_forgets_nothing() {
        let (busy, idle, seldom) = (count(|_| true), count(|_| false), count(|tick| tick % 8 == 0));
        assert_eq!(busy.0, 200);
        assert!(idle.0 <= 52 && seldom.0 < 80, "{idle:?}, {seldom:?}");
        for (_, asked, resized) in [busy, idle, seldom] {
            assert!((30..=51).contains(&asked), "{asked}");
            assert!(resized > Duration::from_millis(880), "{resized:?}");
        }
    }
}
