//! Follows an iteration: starts a driver for each worker that has a task of it, and tells the dispatcher what
//! was seen.
//!
//! Never waits for one thing alone: what cannot be reported yet stays with the intake. Refuses to know how
//! events come in and reports go out: they are channels, which the control plane's client fills and drains,
//! or a test.

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

/// The time between two bookings of hand-overs that the consumer has not settled itself, and between two
/// reports: short enough for the dispatcher, long enough that many splits go into one.
const TICK: Duration = Duration::from_millis(5);

/// How often once there was nothing to book or report for a while: a reader that waits costs its trainer next
/// to nothing. Also how often a worker is asked again for a task that it did not know: about as long as the
/// dispatcher takes to tell it.
const IDLE_TICK: Duration = Duration::from_millis(20);

/// The shortest time between two looks of `Auto` at the rate: several round trips of all but the longest
/// paths.
const RESIZE_EVERY: Duration = Duration::from_millis(100);

/// The time for which links stay when the reader is gone, so that its workers hear that it wants nothing
/// more. A worker that does not hear it keeps sent elements for a reader that might come back.
const GOODBYE: Duration = Duration::from_millis(100);

/// The limits of waiting.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// For a worker that the dispatcher holds to be alive.
    pub(crate) worker: Duration,
    /// For a first worker.
    pub(crate) workers: Duration,
}

/// Follows until the reader is gone, which drops the other end of `gone`, and ends the drivers and the feed
/// with itself.
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
                    // Others may wait for the answer.
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
                        // May decompress what waits, which would hold up the lane's sockets.
                        removals.spawn_blocking(move || (task, remains.look_through(&*alloc)));
                    }
                },
                None => is_open = false,
            },
            Some(removal) = removals.join_next(), if !removals.is_empty() => {
                match removal {
                    Ok((task, seen)) => intake.act(|core| core.note_removed(task, seen)),
                    // The dispatcher goes on without an answer after a while, taking all for seen (C6.3).
                    Err(error) => tracing::error!(%error, "what is left of a removed task could not be looked through"),
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
    // The feed hears by this that the reader is gone, and bounds how long the last reports may take.
    drop(events);
    tokio::join!(pass_last_reports(intake, reports), end_links(intake, drivers));
}

/// Ends the links, once workers have heard that the reader wants nothing more.
async fn end_links(intake: &Intake, drivers: JoinSet<()>) {
    if !intake.look(ReaderCore::is_over) {
        tokio::time::sleep(GOODBYE).await;
    }
    drop(drivers);
}

/// Passes on everything that is left, as fast as it is taken. Ends when nobody takes reports any more.
async fn pass_last_reports(intake: &Intake, reports: mpsc::Sender<Report>) {
    while let Ok(room) = reports.reserve().await
        && let Some(report) = intake.act(ReaderCore::next_report)
    {
        room.send(report);
    }
}

/// Passes on what there is room for. False if there was nothing.
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

/// When what is done from time to time is due. Times that are late put the next ones off.
#[derive(Debug)]
struct Ticks {
    due: Instant,
    pause: Duration,
    asked_again_at: Instant,
    resized_at: Instant,
}

/// The work of a tick beside booking and reporting.
#[derive(Debug, PartialEq, Eq)]
struct Due {
    is_to_ask_again: bool,
    /// The time since it was done last.
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
