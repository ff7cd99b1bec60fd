//! The requests for the splits of one source. Each request follows the answer to the one before, until the
//! task holds enough splits or the dispatcher ends the pass.
//!
//! A producer pauses while its buffers are full. The requests go on meanwhile, because other tasks lease
//! splits, and this task must get its part of them (C5.9).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use millstream_trace::{AttributeValue, Part, Tracer};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, watch};

use super::books::{FeedBatch, FeedRun};
use super::demand::{FeedDemand, FeedGoal};
use crate::error::{Code, Error};
use crate::id::TaskId;
use crate::rpc::session::Session;
use crate::rpc::wire::{LeasedRun, WireReply, WireRequest, unexpected};
use crate::split::WAITS_WITH_MIN;

/// The shortest and the longest pause before a request that got no splits is repeated. The pause doubles with
/// each attempt.
pub(super) const HOLD_PAUSE_MIN: Duration = Duration::from_millis(10);
pub(super) const HOLD_PAUSE_MAX: Duration = Duration::from_millis(500);
/// The longest pause of a task that waits for its turn and starts no split, because its buffers are full.
pub(super) const FULL_PAUSE_MAX: Duration = Duration::from_secs(10);
/// Maximum number of answers that the producer has not taken. The next request waits for the producer then.
const ANSWERS_MAX: usize = 256;

/// The reason for which a split feed returns neither a split nor the end of the pass.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    /// The task was stopped, which is not an error of the task.
    #[error("the task was stopped")]
    Cancelled,
    /// The dispatcher did not lease any splits.
    #[error("no splits from the dispatcher: {0}")]
    Dispatcher(Error),
}

/// The requests in flight for the splits of one source.
#[derive(Debug)]
pub(super) struct Fetching {
    answers: mpsc::Receiver<Result<FeedBatch, FeedError>>,
    /// The error that ended the requests. The producer gets it after all splits that it holds.
    failed: Option<FeedError>,
    stopped: watch::Sender<bool>,
    progress: Arc<Progress>,
}

/// The numbers of the task that its requests state.
#[derive(Debug, Default)]
struct Progress {
    /// The number of splits that have arrived and are not begun.
    held: AtomicU64,
    /// The goal of the task: its pace, or 0 while it is unknown, and the number of splits.
    per_1000_s: AtomicU64,
    splits: AtomicU64,
    is_measured: AtomicBool,
    /// The signals that the producer has taken a split, and that few splits are left.
    is_taken: Notify,
    is_low: Notify,
}

impl Progress {
    // Relaxed: the numbers only decide the time and the size of requests.
    fn goal(&self) -> Option<FeedGoal> {
        let per_1000_s = self.per_1000_s.load(Ordering::Relaxed);
        let splits = self.splits.load(Ordering::Relaxed);
        let is_measured = self.is_measured.load(Ordering::Relaxed);
        (per_1000_s > 0).then_some(FeedGoal {
            per_1000_s,
            splits,
            is_measured,
        })
    }

    /// Returns the goal of the task, and the number of splits that it holds.
    fn present(&self) -> (Option<FeedGoal>, u64) {
        (self.goal(), self.held.load(Ordering::Relaxed))
    }

    /// Waits before a request that got no splits is repeated, and returns the next pause. `waits_for_turn`
    /// says that another task must lease splits first. The answer to a task that does not wait for its turn
    /// stays the same until the task starts a split.
    async fn rest(&self, pause: Duration, waits_for_turn: bool) -> Duration {
        let rest = Rest::of(pause, self.held.load(Ordering::Relaxed), waits_for_turn);
        let unless_taken = async {
            match rest.unless_taken {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        let after_taken = async {
            self.is_taken.notified().await;
            tokio::time::sleep(rest.after_taken).await;
        };
        tokio::select! {
            () = unless_taken => (pause * 2).min(FULL_PAUSE_MAX),
            () = after_taken => (pause * 2).min(HOLD_PAUSE_MAX),
            // A task with few splits does not wait.
            () = self.is_low.notified() => (pause * 2).min(HOLD_PAUSE_MAX),
        }
    }

    fn set_goal(&self, goal: Option<FeedGoal>) {
        if let Some(goal) = goal {
            self.splits.store(goal.splits, Ordering::Relaxed);
            self.is_measured.store(goal.is_measured, Ordering::Relaxed);
            self.per_1000_s.store(goal.per_1000_s, Ordering::Relaxed);
        }
    }
}

/// The pauses before a request that got no splits is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rest {
    /// The pause if the producer takes no split meanwhile. `None` if the answer would be the same.
    pub(super) unless_taken: Option<Duration>,
    /// The pause after the producer has taken a split.
    pub(super) after_taken: Duration,
}

impl Rest {
    /// Returns the pauses of a task that holds `held` splits. See [`Progress::rest`].
    pub(super) fn of(pause: Duration, held: u64, waits_for_turn: bool) -> Rest {
        let short = pause.min(HOLD_PAUSE_MAX);
        Rest {
            unless_taken: match held < WAITS_WITH_MIN {
                true => Some(short),
                false => waits_for_turn.then_some(pause),
            },
            after_taken: short,
        }
    }
}

/// The parts of a request that no answer changes, and the signals that end the requests.
#[derive(Debug)]
pub(super) struct RequestTerms {
    pub(super) session: Weak<Session>,
    pub(super) task: TaskId,
    pub(super) source: u32,
    pub(super) repetition: u64,
    pub(super) deadline: Duration,
    pub(super) is_idle: Arc<AtomicBool>,
    pub(super) cancelled: watch::Receiver<bool>,
    pub(super) draining: watch::Receiver<bool>,
    pub(super) tracer: Tracer,
}

impl Fetching {
    /// Sends the first request, of a task with this goal that holds `held` splits.
    pub(super) fn begin(
        runtime: &Handle,
        terms: RequestTerms,
        demand: FeedDemand,
        (goal, held): (Option<FeedGoal>, u64),
    ) -> Fetching {
        let (sender, answers) = mpsc::channel(ANSWERS_MAX);
        let (stopped, stop) = watch::channel(false);
        let progress = Arc::new(Progress::default());
        progress.held.store(held, Ordering::Relaxed);
        progress.set_goal(goal);
        let requests = Requests {
            terms,
            progress: Arc::clone(&progress),
            stop,
        };
        runtime.spawn(requests.send_all(demand, sender));
        Fetching {
            answers,
            failed: None,
            stopped,
            progress,
        }
    }

    /// Notes that the producer has taken a split, and the goal after it.
    pub(super) fn note_taken(&self, goal: Option<FeedGoal>) {
        self.progress.set_goal(goal);
        // Release: a request that sees the split taken also sees that the producer has stopped waiting.
        if self.progress.held.fetch_sub(1, Ordering::Release) <= WAITS_WITH_MIN {
            self.progress.is_low.notify_one();
        }
        self.progress.is_taken.notify_one();
    }

    /// Ends the requests after the answer to the one in flight.
    pub(super) fn stop(&self) {
        self.stopped.send_replace(true);
    }

    /// Returns the next answer if it has arrived. An error is kept for [`next`](Fetching::next).
    pub(super) fn arrived(&mut self) -> Option<FeedBatch> {
        if self.failed.is_some() {
            return None;
        }
        match self.answers.try_recv().ok()? {
            Ok(batch) => Some(batch),
            Err(error) => {
                self.failed = Some(error);
                None
            }
        }
    }

    /// Returns whether the dispatcher was silent, so that a later request may succeed.
    pub(super) fn may_be_repeated(&self) -> bool {
        let Some(FeedError::Dispatcher(error)) = &self.failed else {
            return false;
        };
        matches!(error.code, Code::Unavailable | Code::DeadlineExceeded)
    }

    /// Waits for the next answer. Returns `None` after the last answer of stopped requests. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Option<FeedBatch>, FeedError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        match self.answers.recv().await {
            Some(answer) => answer.map(Some),
            None if *self.stopped.borrow() => Ok(None),
            None => Err(FeedError::Cancelled),
        }
    }
}

/// The sender of the requests.
struct Requests {
    terms: RequestTerms,
    progress: Arc<Progress>,
    stop: watch::Receiver<bool>,
}

impl Requests {
    async fn send_all(mut self, first: FeedDemand, answers: mpsc::Sender<Result<FeedBatch, FeedError>>) {
        let Some(session) = self.terms.session.upgrade() else {
            answers.send(Err(FeedError::Cancelled)).await.ok();
            return;
        };
        let mut demand = Some(first);
        while let Some(wanted) = demand.take().filter(|_| !*self.stop.borrow()) {
            let mut cancelled = self.terms.cancelled.clone();
            let result = tokio::select! {
                result = self.lease(&session, wanted) => result,
                _ = cancelled.wait_for(|cancelled| *cancelled) => Err(FeedError::Cancelled),
            };
            let answer = match result {
                Ok(Some(mut batch)) => {
                    let leased: u64 = batch.runs.iter().map(|leased| leased.run.count).sum();
                    let held = self.progress.held.fetch_add(leased, Ordering::Relaxed) + leased;
                    let may_follow = batch.more && !batch.end && !self.is_over();
                    let goal = self.progress.goal();
                    let goal = goal.filter(|goal| may_follow && goal.wants_more(held));
                    demand = goal.map(|goal| goal.demand(held));
                    batch.follows = demand.is_some();
                    Ok(batch)
                }
                Ok(None) => return,
                Err(error) => Err(error),
            };
            // The send fails if the feed was just dropped. The dispatcher settles the leases with the task.
            if answers.send(answer).await.is_err() {
                return;
            }
        }
    }

    /// Requests splits until the dispatcher sends splits or an end. The dispatcher sends neither while the
    /// task holds its part (C5.1) or too many splits (C5.2), or waits for its turn (C5.9). A request that
    /// was sent is always awaited, because its splits belong to the task. Returns `None` if the requests are
    /// over.
    async fn lease(
        &mut self,
        session: &Session,
        mut demand: FeedDemand,
    ) -> Result<Option<FeedBatch>, FeedError> {
        let mut pause = HOLD_PAUSE_MIN;
        loop {
            let asked = Instant::now();
            let request = self.request(demand);
            let batch = batch_of(call_until_able(session, &request, self.terms.deadline).await)?;
            if batch.end || !batch.runs.is_empty() {
                trace(&self.terms.tracer, self.terms.task, (asked, demand.want), &batch);
                return Ok(Some(batch));
            }
            if *self.terms.draining.borrow() {
                return Err(FeedError::Cancelled);
            }
            tokio::select! {
                _ = self.stop.wait_for(|stopped| *stopped) => return Ok(None),
                _ = self.terms.draining.wait_for(|draining| *draining) => return Err(FeedError::Cancelled),
                rested = self.progress.rest(pause, batch.more) => pause = rested,
            }
            let (goal, held) = self.progress.present();
            demand = goal.map_or(demand, |goal| goal.demand(held));
        }
    }

    fn request(&self, demand: FeedDemand) -> WireRequest {
        // A producer that waits goes on only after an answer to a request. The splits of an answer count as
        // held before the producer receives them.
        let is_empty = self.progress.held.load(Ordering::Acquire) == 0;
        let is_idle = is_empty && self.terms.is_idle.load(Ordering::Relaxed);
        WireRequest::LeaseSplits {
            task: self.terms.task,
            source: self.terms.source,
            repetition: self.terms.repetition,
            want: demand.want,
            pace: demand.pace,
            is_idle,
        }
    }

    fn is_over(&self) -> bool {
        *self.stop.borrow() || *self.terms.draining.borrow()
    }
}

/// Records the time of a request for each sampled split of its answer, which may contain `want` splits.
fn trace(tracer: &Tracer, task: TaskId, (asked, want): (Instant, u32), batch: &FeedBatch) {
    if !tracer.is_on() {
        return;
    }
    let times = (asked, Instant::now());
    let leases = batch.runs.iter().flat_map(|leased| {
        let run = leased.run;
        (run.first_lease..=run.leases().last()).map(move |lease| (run.source, lease))
    });
    // A dispatcher that sends more than the task wanted must not occupy this thread.
    for (source, lease) in leases.take(want as usize) {
        if let Some(split) = tracer.split(task.0, lease) {
            let source = AttributeValue::Count(source.into());
            split.record(Part::Lease, times, [("millstream.source", source)]);
        }
    }
}

/// Repeats a request while the dispatcher answers that its store is full.
pub(super) async fn call_until_able(
    session: &Session,
    request: &WireRequest,
    deadline: Duration,
) -> Result<WireReply, Error> {
    loop {
        let asked = Instant::now();
        let result = session.call(request.clone(), deadline).await;
        let cannot_now = result
            .as_ref()
            .is_err_and(|error| error.code == Code::Unavailable);
        // The deadline is for a dispatcher that does not answer.
        if !cannot_now || asked.elapsed() >= deadline || session.failure().is_some() {
            return result;
        }
        tokio::time::sleep(HOLD_PAUSE_MAX).await;
    }
}

fn batch_of(result: Result<WireReply, Error>) -> Result<FeedBatch, FeedError> {
    match result {
        Ok(WireReply::Splits {
            runs,
            end,
            current,
            more,
        }) => {
            if runs.iter().all(is_sound) {
                let runs = runs.into_iter().map(|leased| FeedRun {
                    run: leased.run,
                    payloads: leased.payloads.into(),
                    versions: leased.versions.into(),
                });
                Ok(FeedBatch {
                    runs: runs.collect(),
                    end,
                    current,
                    more,
                    follows: false,
                })
            } else {
                Err(FeedError::Dispatcher(Error::internal(
                    "the dispatcher sent invalid splits: a run is empty or too long, or has another number of payloads or versions",
                )))
            }
        }
        Ok(_) => Err(FeedError::Dispatcher(unexpected())),
        Err(error) if error.code == Code::Aborted => Err(FeedError::Cancelled),
        Err(error) => Err(FeedError::Dispatcher(error)),
    }
}

/// Returns whether the arithmetic on a leased run cannot overflow.
fn is_sound(leased: &LeasedRun) -> bool {
    let run = &leased.run;
    run.count > 0
        && run.first_index.checked_add(run.count).is_some()
        && run.first_lease.checked_add(run.count).is_some()
        && (leased.payloads.is_empty() || leased.payloads.len() as u64 == run.count)
        && (leased.versions.is_empty() || leased.versions.len() as u64 == run.count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the requests of a task that holds `held` splits, and the producer's side of them.
    fn requests(is_idle: bool, held: u64) -> (Requests, Fetching) {
        let signal = || watch::channel(false).1;
        let terms = RequestTerms {
            session: Weak::new(),
            task: TaskId(1),
            source: 0,
            repetition: 0,
            deadline: Duration::from_secs(1),
            is_idle: Arc::new(AtomicBool::new(is_idle)),
            cancelled: signal(),
            draining: signal(),
            tracer: Tracer::default(),
        };
        let progress = Arc::new(Progress::default());
        progress.held.store(held, Ordering::Relaxed);
        let (stopped, stop) = watch::channel(false);
        let fetching = Fetching {
            answers: mpsc::channel(1).1,
            failed: None,
            stopped,
            progress: Arc::clone(&progress),
        };
        (
            Requests {
                terms,
                progress,
                stop,
            },
            fetching,
        )
    }

    /// Tests that a task with an answer on its way to the producer has not read everything (C16.8).
    #[test]
    fn a_task_with_coming_splits_is_not_idle() {
        let demand = FeedDemand { want: 1, pace: None };
        for (waits, held, expected) in [(true, 0, true), (true, 1, false), (false, 0, false)] {
            let request = requests(waits, held).0.request(demand);
            let WireRequest::LeaseSplits { is_idle, .. } = request else {
                panic!("{request:?}")
            };
            assert_eq!(is_idle, expected, "{held} held");
        }
    }

    /// Tests that each started split changes the numbers of the next request.
    #[test]
    fn requests_state_the_present_pace() {
        let (requests, fetching) = requests(false, 3);
        assert_eq!(requests.progress.present(), (None, 3));
        for (per_1000_s, held) in [(2_000, 2), (900_000, 1)] {
            let goal = FeedGoal {
                per_1000_s,
                splits: 15 * per_1000_s / 1000,
                is_measured: true,
            };
            fetching.note_taken(Some(goal));
            assert_eq!(requests.progress.present(), (Some(goal), held));
        }
    }

    /// Tests that a task that holds splits and starts none seldom repeats a request, or never.
    #[test]
    fn full_tasks_seldom_repeat_requests() {
        let rest = |held, waits_for_turn| Rest::of(FULL_PAUSE_MAX, held, waits_for_turn);
        assert_eq!(rest(2, true).unless_taken, Some(FULL_PAUSE_MAX));
        assert_eq!(rest(2, false).unless_taken, None);
        assert_eq!(
            rest(1, false).unless_taken,
            Some(HOLD_PAUSE_MAX),
            "it would soon be idle"
        );
        assert_eq!(rest(2, true).after_taken, HOLD_PAUSE_MAX);
    }

    /// Tests that a task that was paused repeats its request after it has taken a split.
    #[tokio::test]
    async fn a_taken_split_ends_a_pause() {
        let (requests, fetching) = requests(false, 9);
        let rest = async || requests.progress.rest(HOLD_PAUSE_MIN, false).await;
        let early = tokio::time::timeout(Duration::from_millis(1), rest()).await;
        assert!(early.is_err(), "nothing was taken");
        fetching.note_taken(None);
        assert_eq!(rest().await, HOLD_PAUSE_MIN * 2);
    }

    /// Tests that a task that runs out of splits does not wait for the next attempt.
    #[tokio::test]
    async fn the_last_splits_end_a_pause() {
        let (requests, fetching) = requests(false, 3);
        let is_low = || async {
            let signal = requests.progress.is_low.notified();
            tokio::time::timeout(Duration::from_millis(1), signal)
                .await
                .is_ok()
        };
        fetching.note_taken(None);
        assert!(!is_low().await, "two are left");
        fetching.note_taken(None);
        assert!(is_low().await, "one is left");
    }
}
