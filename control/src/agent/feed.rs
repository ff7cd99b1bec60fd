//! Splits for one task, fetched ahead, from a thread that may block.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};

use super::AgentConfig;
use super::books::{FeedBatch, FeedBooks, FeedRun, FeedStep};
use super::demand::FeedDemand;
use crate::error::{Code, Error};
use crate::id::TaskId;
use crate::job::Policy;
use crate::rpc::session::Session;
use crate::rpc::wire::{LeasedRun, WireReply, WireRequest, unexpected};
use crate::split::Split;

/// A task that holds too many splits asks again after this, doubling to the other.
const HOLD_PAUSE_MIN: Duration = Duration::from_millis(10);
const HOLD_PAUSE_MAX: Duration = Duration::from_millis(500);

/// Gives the splits of one task, in the order in which the dispatcher deals them out. Dropping it returns
/// what was not started.
///
/// For one producer thread: [`next`](SplitFeed::next) blocks it, and must not be called from within the
/// runtime.
#[derive(Debug)]
pub struct SplitFeed {
    /// The incarnation's: it ends with it.
    session: Weak<Session>,
    runtime: Handle,
    task: TaskId,
    deadline: Duration,
    hold_deadline: Duration,
    control: FeedControl,
    books: FeedBooks,
    /// The books' time counts from here.
    begun: Instant,
    /// Answers under way, by source.
    fetching: BTreeMap<u32, oneshot::Receiver<Result<FeedBatch, FeedError>>>,
}

/// The state of one task that the agent and the producer share.
#[derive(Clone, Debug)]
pub(super) struct FeedControl {
    cancelled: Arc<watch::Sender<bool>>,
    exhausted: Arc<AtomicBool>,
    /// The number of returns of unstarted splits that are under way.
    returning: Returns,
    /// The number of returns under way of all tasks of the worker.
    returning_all: Returns,
    /// The worker is being drained: no splits are given any more.
    draining: Arc<watch::Sender<bool>>,
    /// The producer was told of an end that the draining made.
    cut_short: Arc<AtomicBool>,
}

/// The number of returns of unstarted splits that are under way.
#[derive(Clone, Debug)]
pub(super) struct Returns(Arc<watch::Sender<u32>>);

impl Returns {
    pub(super) fn none() -> Returns {
        Returns(Arc::new(watch::channel(0).0))
    }

    /// Waits until none is under way. Cancel-safe.
    pub(super) async fn over(&self) {
        let mut returning = self.0.subscribe();
        // The sender is this one's own, so that it is never gone.
        returning.wait_for(|returns| *returns == 0).await.ok();
    }
}

/// A return under way, until it is dropped.
struct Returning([Returns; 2]);

impl Returning {
    fn begin(control: &FeedControl) -> Returning {
        let counts = [control.returning.clone(), control.returning_all.clone()];
        for count in &counts {
            count.0.send_modify(|returns| *returns += 1);
        }
        Returning(counts)
    }
}

impl Drop for Returning {
    fn drop(&mut self) {
        for count in &self.0 {
            count.0.send_modify(|returns| *returns -= 1);
        }
    }
}

/// Why there is no split and no end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    /// The task was stopped. Nobody's fault.
    #[error("the task was stopped")]
    Cancelled,
    /// The dispatcher did not give any.
    #[error("no splits from the dispatcher: {0}")]
    Dispatcher(Error),
}

impl SplitFeed {
    pub(super) fn new(
        session: &Arc<Session>,
        runtime: Handle,
        task: TaskId,
        config: &AgentConfig,
        control: FeedControl,
    ) -> SplitFeed {
        SplitFeed {
            session: Arc::downgrade(session),
            runtime,
            task,
            deadline: config.split_deadline,
            hold_deadline: config.hold_deadline,
            control,
            books: FeedBooks::default(),
            begun: Instant::now(),
            fetching: BTreeMap::new(),
        }
    }

    /// The next split of a source, or `None` when this pass over it is over. Asked for the first time, it
    /// fetches: so not before the task has its first credit.
    ///
    /// The split may belong to an earlier pass than the one asked for: one that another worker had and lost.
    /// Blocks until the dispatcher answers, at most the split deadline; while the task holds as many splits
    /// as it may without a reader having confirmed any, at most the hold deadline.
    ///
    /// # Errors
    /// [`FeedError::Cancelled`] at once when the task is stopped; [`FeedError::Dispatcher`] at a deadline.
    pub fn next(&mut self, source: u32, repetition: u64) -> Result<Option<Split>, FeedError> {
        loop {
            if *self.control.cancelled.borrow() {
                return Err(FeedError::Cancelled);
            }
            if self.is_draining() {
                self.return_unstarted();
                return Ok(None);
            }
            self.look(source);
            let step = self.books.next(source, repetition, self.begun.elapsed());
            // Relaxed: read by the agent when the producer says that it has finished, which orders it.
            let exhausted = self.books.is_exhausted();
            self.control.exhausted.store(exhausted, Ordering::Relaxed);
            match step {
                FeedStep::Split { split, ask_ahead } => {
                    if let Some(demand) = ask_ahead {
                        self.fetch(source, repetition, demand);
                    }
                    return Ok(Some(split));
                }
                FeedStep::End => return Ok(None),
                FeedStep::Ask(demand) => self.fetch(source, repetition, demand),
                FeedStep::Wait => {}
            }
            self.receive(source)?;
        }
    }

    /// Returns whether no pass has any more splits for this task, because its worker drains (C10.2). A
    /// producer that learns of it ends before its splits do.
    pub fn is_draining(&self) -> bool {
        let is_draining = *self.control.draining.borrow();
        if is_draining {
            // Relaxed: read by the agent when the producer says that it has finished, which orders it.
            self.control.cut_short.store(true, Ordering::Relaxed);
        }
        is_draining
    }

    /// Takes splits of a source that were fetched and not asked for, because the reader left that pass before
    /// its end (C5.4). Nobody reads it: it is done with as if it had been read. Blocks as
    /// [`next`](SplitFeed::next) does while an answer is under way; holds at most two batches.
    ///
    /// # Errors
    /// As [`next`](SplitFeed::next).
    pub fn pass_over(&mut self, source: u32) -> Result<Vec<Split>, FeedError> {
        self.receive(source)?;
        Ok(self.books.pass_over(source))
    }

    /// The pass over a source that was dealt out when the dispatcher last answered, or that of a split which
    /// was fetched and not taken: every earlier one is over, and need not be asked for. 0 before the first
    /// answer.
    pub fn current_repetition(&self, source: u32) -> u64 {
        self.books.current_repetition(source)
    }

    /// Gives back what was fetched and not started, in the background, for as long as the worker has its
    /// lease: what is not given back would count as read. Afterwards the feed is empty.
    pub fn return_unstarted(&mut self) {
        let mut leases = self.books.take_unstarted();
        let coming: Vec<_> = std::mem::take(&mut self.fetching).into_values().collect();
        if leases.is_empty() && coming.is_empty() {
            return;
        }
        // Without the incarnation, its leases are gone as well.
        let Some(session) = self.session.upgrade() else {
            return;
        };
        let (task, deadline) = (self.task, self.deadline);
        let returning = Returning::begin(&self.control);
        self.runtime.spawn(async move {
            let _until_answered = returning;
            for batch in coming {
                if let Ok(Ok(batch)) = batch.await {
                    leases.extend(batch.runs.iter().map(|leased| leased.run.leases()));
                }
            }
            for leases in leases.chunks(1024) {
                let leases = leases.to_vec();
                let request = WireRequest::ReturnSplits { task, leases };
                while let Err(error) = call_until_able(&session, &request, deadline).await {
                    let is_silent = matches!(error.code, Code::Unavailable | Code::DeadlineExceeded);
                    if !is_silent || session.failure().is_some() {
                        // If the task or the worker's lease is gone, so are its leases.
                        tracing::debug!(%task, %error, "splits were not returned");
                        return;
                    }
                    tracing::warn!(%task, %error, "splits are not returned yet");
                }
            }
        });
    }

    fn fetch(&mut self, source: u32, repetition: u64, demand: FeedDemand) {
        let (sender, receiver) = oneshot::channel();
        let session = self.session.upgrade();
        let mut cancelled = self.control.cancelled.subscribe();
        let draining = self.control.draining.subscribe();
        let (task, deadline) = (self.task, self.deadline);
        self.runtime.spawn(async move {
            let Some(session) = session else {
                sender.send(Err(FeedError::Cancelled)).ok();
                return;
            };
            let request = WireRequest::LeaseSplits {
                task,
                source,
                repetition,
                want: demand.want,
                pace: demand.pace,
            };
            let result = tokio::select! {
                result = lease(&session, &request, deadline, &draining) => result,
                _ = cancelled.wait_for(|cancelled| *cancelled) => Err(FeedError::Cancelled),
            };
            // Fails when the feed was dropped at this instant: the dispatcher settles the leases with the
            // task.
            sender.send(result).ok();
        });
        self.books.asked(source, repetition, demand.want);
        self.fetching.insert(source, receiver);
    }

    /// Books an answer that has arrived, without waiting.
    fn look(&mut self, source: u32) {
        let Some(receiver) = self.fetching.get_mut(&source) else {
            return;
        };
        let Ok(answer) = receiver.try_recv() else {
            // None is here, or none will come: the caller that waits for it learns which.
            return;
        };
        self.fetching.remove(&source);
        match answer {
            Ok(batch) => self.books.answered(source, batch),
            Err(error) => {
                // What is here is read first; the producer meets the error when it waits.
                let (sender, receiver) = oneshot::channel();
                sender.send(Err(error)).ok();
                self.fetching.insert(source, receiver);
            }
        }
    }

    /// Waits for what is under way, if anything is; not for longer than until the worker is drained.
    fn receive(&mut self, source: u32) -> Result<(), FeedError> {
        let Some(mut receiver) = self.fetching.remove(&source) else {
            return Ok(());
        };
        let mut draining = self.control.draining.subscribe();
        let received = async {
            tokio::select! {
                received = tokio::time::timeout(self.hold_deadline, &mut receiver) => Some(received),
                _ = draining.wait_for(|draining| *draining) => None,
            }
        };
        let Some(received) = self.runtime.block_on(received) else {
            // What comes is given back when it is there.
            self.fetching.insert(source, receiver);
            return Ok(());
        };
        let Ok(received) = received else {
            return Err(self.holds_too_much());
        };
        let batch = received.map_err(|_| FeedError::Cancelled)??;
        self.books.answered(source, batch);
        Ok(())
    }

    fn holds_too_much(&self) -> FeedError {
        let seconds = self.hold_deadline.as_secs_f64();
        FeedError::Dispatcher(Error::exhausted(format!(
            "task {} holds as many splits as it may, and no reader has confirmed any for {seconds} s: a buffer of the pipeline \
             keeps them. Make its shuffle smaller, or shuffle after the service",
            self.task
        )))
    }
}

impl Drop for SplitFeed {
    fn drop(&mut self) {
        self.return_unstarted();
    }
}

impl FeedControl {
    pub(super) fn new(policy: Policy, returning_all: Returns) -> FeedControl {
        FeedControl {
            cancelled: Arc::new(watch::channel(false).0),
            // A task that is given no splits always reads to the end.
            exhausted: Arc::new(AtomicBool::new(policy != Policy::Dynamic)),
            returning: Returns::none(),
            returning_all,
            draining: Arc::new(watch::channel(false).0),
            cut_short: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Waits until what was not started has been given back. Cancel-safe.
    pub(super) async fn returned(&self) {
        self.returning.over().await;
    }

    pub(super) fn cancel(&self) {
        self.cancelled.send_replace(true);
    }

    pub(super) fn drain(&self) {
        self.draining.send_replace(true);
    }

    pub(super) fn is_cut_short(&self) -> bool {
        self.cut_short.load(Ordering::Relaxed)
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted.load(Ordering::Relaxed)
    }
}

/// Asks until there are splits, or no more: C5.2 gives neither while the task holds too many. A request that
/// was made is waited for in any case, since its splits are the task's; a worker that is being drained makes
/// no further one.
async fn lease(
    session: &Session,
    request: &WireRequest,
    deadline: Duration,
    draining: &watch::Receiver<bool>,
) -> Result<FeedBatch, FeedError> {
    let mut pause = HOLD_PAUSE_MIN;
    loop {
        let batch = batch_of(call_until_able(session, request, deadline).await)?;
        if batch.end || !batch.runs.is_empty() {
            return Ok(batch);
        }
        if *draining.borrow() {
            return Err(FeedError::Cancelled);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(HOLD_PAUSE_MAX);
    }
}

/// Asks, and asks again while the dispatcher answers that it cannot do it now, because its store is full.
async fn call_until_able(
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
                });
                Ok(FeedBatch {
                    runs: runs.collect(),
                    end,
                    current,
                    more,
                })
            } else {
                Err(FeedError::Dispatcher(Error::internal(
                    "the dispatcher's splits contradict themselves",
                )))
            }
        }
        Ok(_) => Err(FeedError::Dispatcher(unexpected())),
        Err(error) if error.code == Code::Aborted => Err(FeedError::Cancelled),
        Err(error) => Err(FeedError::Dispatcher(error)),
    }
}

/// Returns whether the arithmetic on a batch cannot overflow.
fn is_sound(leased: &LeasedRun) -> bool {
    let run = &leased.run;
    run.count > 0
        && run.first_index.checked_add(run.count).is_some()
        && run.first_lease.checked_add(run.count).is_some()
        && (leased.payloads.is_empty() || leased.payloads.len() as u64 == run.count)
}
