//! The split feed: prefetches the splits of one task, for a thread that may block.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use millstream_trace::Tracer;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::AgentConfig;
use super::books::{FeedBatch, FeedBooks, FeedStep};
use super::demand::FeedDemand;
use super::requests::{FeedError, Fetching, RequestTerms, call_until_able};
use crate::error::{Code, Error};
use crate::id::TaskId;
use crate::job::Policy;
use crate::rpc::session::Session;
use crate::rpc::wire::WireRequest;
use crate::split::Split;

/// The feed of one task's splits, in the order in which the dispatcher leases them. Dropping the feed
/// returns the unstarted splits.
///
/// For one producer thread: [`next`](SplitFeed::next) blocks it, and must not be called from within the
/// runtime.
#[derive(Debug)]
pub struct SplitFeed {
    /// The session of the incarnation, with which the feed ends.
    session: Weak<Session>,
    runtime: Handle,
    task: TaskId,
    deadline: Duration,
    hold_deadline: Duration,
    tracer: Tracer,
    control: FeedControl,
    books: FeedBooks,
    /// The zero point of the books' time.
    begun: Instant,
    /// True while the producer waits for a split, and has read all its splits to the end.
    idle: Arc<AtomicBool>,
    /// The requests in flight, by source.
    fetching: BTreeMap<u32, Fetching>,
}

/// The state of one task that the agent and the producer share.
#[derive(Clone, Debug)]
pub(super) struct FeedControl {
    cancelled: Arc<watch::Sender<bool>>,
    exhausted: Arc<AtomicBool>,
    /// The number of unfinished returns of unstarted splits.
    returning: Returns,
    /// The number of unfinished returns of all tasks of the worker.
    returning_all: Returns,
    /// True once the worker drains, so that the feed gives out no more splits.
    draining: Arc<watch::Sender<bool>>,
    /// True once the producer was told an end that only the draining caused.
    cut_short: Arc<AtomicBool>,
}

/// The number of unfinished returns of unstarted splits.
#[derive(Clone, Debug)]
pub(super) struct Returns(Arc<watch::Sender<u32>>);

impl Returns {
    pub(super) fn none() -> Returns {
        Returns(Arc::new(watch::channel(0).0))
    }

    /// Waits until every return has finished. Cancel-safe.
    pub(super) async fn over(&self) {
        let mut returning = self.0.subscribe();
        // The count owns the sender of the channel, so the channel stays open.
        returning.wait_for(|returns| *returns == 0).await.ok();
    }
}

/// A return in progress, which ends when the value is dropped.
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
            tracer: config.tracer.clone(),
            control,
            books: FeedBooks::default(),
            begun: Instant::now(),
            idle: Arc::default(),
            fetching: BTreeMap::new(),
        }
    }

    /// Returns the next split of a source, or `None` when this pass over the source is over. The first call
    /// sends a request, so a producer must not call before the task has its first credit.
    ///
    /// The split may belong to an earlier pass than requested, if another worker lost it. Blocks until the
    /// dispatcher answers, for at most the split deadline. While the task holds the maximum number of
    /// unconfirmed splits, the call blocks for at most the hold deadline.
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
            let demand = match self.step(source, repetition) {
                FeedStep::Split { split, ask_ahead } => {
                    if let Some(demand) = ask_ahead {
                        self.fetch(source, repetition, demand);
                    }
                    return Ok(Some(split));
                }
                FeedStep::End => return Ok(None),
                FeedStep::Ask(demand) => Some(demand),
                FeedStep::Wait => None,
            };
            self.idle.store(true, Ordering::Relaxed);
            if let Some(demand) = demand {
                self.fetch(source, repetition, demand);
            }
            let received = self.receive(source);
            self.idle.store(false, Ordering::Relaxed);
            received?;
        }
    }

    /// Returns the next split of a source if the task has its lease already. Does not block. May send the
    /// next request, as [`next`](SplitFeed::next) does for a split that it returns.
    pub fn next_at_hand(&mut self, source: u32, repetition: u64) -> Option<Split> {
        if *self.control.cancelled.borrow() || *self.control.draining.borrow() {
            return None;
        }
        self.look(source);
        if !self.books.has_split(source) {
            return None;
        }
        let FeedStep::Split { split, ask_ahead } = self.step(source, repetition) else {
            return None;
        };
        if let Some(demand) = ask_ahead {
            self.fetch(source, repetition, demand);
        }
        Some(split)
    }

    /// Returns the next step of the books, and shows the agent whether the task has read everything.
    fn step(&mut self, source: u32, repetition: u64) -> FeedStep {
        let step = self.books.next(source, repetition, self.begun.elapsed());
        if matches!(step, FeedStep::Split { .. })
            && let Some(fetching) = self.fetching.get(&source)
        {
            fetching.note_taken(self.books.goal(source));
        }
        // Relaxed: the agent reads the value after the producer has reported the end, which orders the
        // accesses.
        let exhausted = self.books.is_exhausted();
        self.control.exhausted.store(exhausted, Ordering::Relaxed);
        step
    }

    /// Returns whether the worker drains, so that no pass has more splits for this task (C10.2). A producer
    /// that receives true ends before its splits do.
    pub fn is_draining(&self) -> bool {
        let is_draining = *self.control.draining.borrow();
        if is_draining {
            // Relaxed: the agent reads the value after the producer has reported the end, which orders the
            // accesses.
            self.control.cut_short.store(true, Ordering::Relaxed);
        }
        is_draining
    }

    /// Takes the prefetched splits of a source whose reader left the pass before its end (C5.4). No task
    /// reads these splits: the dispatcher counts them as read. Blocks like [`next`](SplitFeed::next) while
    /// an answer is in flight. Sends no further request.
    ///
    /// # Errors
    /// The same errors as [`next`](SplitFeed::next).
    pub fn pass_over(&mut self, source: u32) -> Result<Vec<Split>, FeedError> {
        while let Some(fetching) = self.fetching.get(&source)
            && !*self.control.draining.borrow()
        {
            fetching.stop();
            self.receive(source)?;
        }
        Ok(self.books.pass_over(source))
    }

    /// Returns the current pass over a source. Every earlier pass is over, and need not be requested. The
    /// current pass is the pass of the latest answer, or the pass of a prefetched split if that pass is
    /// earlier. 0 before the first answer.
    pub fn current_repetition(&self, source: u32) -> u64 {
        self.books.current_repetition(source)
    }

    /// Returns the unstarted splits to the dispatcher, in the background, for as long as the worker has its
    /// lease. Splits that are not returned would count as read. The feed is empty afterwards.
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
            for mut fetching in coming {
                fetching.stop();
                while let Ok(Some(batch)) = fetching.next().await {
                    leases.extend(batch.runs.iter().map(|leased| leased.run.leases()));
                }
            }
            for leases in leases.chunks(1024) {
                let leases = leases.to_vec();
                let request = WireRequest::ReturnSplits { task, leases };
                while let Err(error) = call_until_able(&session, &request, deadline).await {
                    let is_silent = matches!(error.code, Code::Unavailable | Code::DeadlineExceeded);
                    if !is_silent || session.failure().is_some() {
                        // If the task or the worker's lease is gone, its leases are gone as well.
                        tracing::debug!(%task, %error, "splits were not returned");
                        return;
                    }
                    tracing::warn!(%task, %error, "splits are not returned yet");
                }
            }
        });
    }

    fn fetch(&mut self, source: u32, repetition: u64, demand: FeedDemand) {
        let terms = RequestTerms {
            session: Weak::clone(&self.session),
            task: self.task,
            source,
            repetition,
            deadline: self.deadline,
            is_idle: Arc::clone(&self.idle),
            cancelled: self.control.cancelled.subscribe(),
            draining: self.control.draining.subscribe(),
            tracer: self.tracer.clone(),
        };
        let numbers = (self.books.goal(source), self.books.held(source));
        let fetching = Fetching::begin(&self.runtime, terms, demand, numbers);
        self.books.asked(source, repetition, demand.want);
        self.fetching.insert(source, fetching);
    }

    /// Books the answers that have arrived, without waiting.
    fn look(&mut self, source: u32) {
        while let Some(fetching) = self.fetching.get_mut(&source)
            && let Some(batch) = fetching.arrived()
        {
            self.book(source, batch);
        }
        // A producer that has splits asks again with the next one, and may succeed.
        let failed = self.fetching.get(&source).is_some_and(Fetching::may_be_repeated);
        if failed && self.books.has_split(source) {
            self.fetching.remove(&source);
            self.books.asks_no_more(source);
        }
    }

    /// Waits for the next answer, if a request is in flight, but only until the worker drains.
    fn receive(&mut self, source: u32) -> Result<(), FeedError> {
        let Some(fetching) = self.fetching.get_mut(&source) else {
            return Ok(());
        };
        let mut draining = self.control.draining.subscribe();
        let received = async {
            tokio::select! {
                received = tokio::time::timeout(self.hold_deadline, fetching.next()) => Some(received),
                _ = draining.wait_for(|draining| *draining) => None,
            }
        };
        // The splits of an answer that arrives after the draining began are returned.
        let Some(received) = self.runtime.block_on(received) else {
            return Ok(());
        };
        let answer = match received {
            Ok(answer) => answer,
            Err(_) => Err(self.holds_too_much()),
        };
        match answer {
            Ok(Some(batch)) => self.book(source, batch),
            Ok(None) => {
                self.fetching.remove(&source);
                self.books.asks_no_more(source);
            }
            Err(error) => {
                self.fetching.remove(&source);
                return Err(error);
            }
        }
        Ok(())
    }

    fn book(&mut self, source: u32, batch: FeedBatch) {
        if !batch.follows {
            self.fetching.remove(&source);
        }
        self.books.answered(source, batch);
    }

    fn holds_too_much(&self) -> FeedError {
        let seconds = self.hold_deadline.as_secs_f64();
        FeedError::Dispatcher(Error::exhausted(format!(
            "task {} holds the maximum of unconfirmed splits, and no reader has confirmed any for \
            {seconds} s: a buffer of the pipeline \
             keeps them; make its shuffle smaller, or shuffle after the service",
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
            // A task without leased splits always reads to the end.
            exhausted: Arc::new(AtomicBool::new(policy != Policy::Dynamic)),
            returning: Returns::none(),
            returning_all,
            draining: Arc::new(watch::channel(false).0),
            cut_short: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Waits until all unstarted splits have been returned. Cancel-safe.
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
