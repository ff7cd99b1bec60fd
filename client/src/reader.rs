//! The reader of an iteration: yields elements as an async stream, or one at a time to a blocked thread.
//!
//! The reader owns the lane thread that runs its links; dropping the reader ends the links. The reader
//! buffers at most `max_outstanding` elements and `max_outstanding_bytes` bytes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::Stream;
use millstream_control::ClientLinks;
use millstream_dataplane::TaskId;
use millstream_dataplane::transport::LinkReport;
use millstream_element::{Element, Pool, SlotAlloc};
use millstream_link::{Lane, LaneTask};
use millstream_trace::{SplitTrace, Tracer};
use tokio::sync::oneshot;

use crate::connector::Connector;
use crate::cursor::{Cursor, OnHanded};
use crate::error::ReadError;
use crate::feed::Feed;
use crate::follow::{Patience, follow};
use crate::guard::guard;
use crate::intake::Intake;
use crate::loss::{DataLoss, LostSplits, OnLost};
use crate::notice::{Notice, Notices, OnNotice};
use crate::reader_core::credit::{Bounds, MaxOutstanding};
use crate::reader_core::{AUTO_BYTES_MIN, ReaderCore, Reading};
use crate::stats::{ReaderStats, Stopwatch};
use crate::wait_clock::WaitClock;
use crate::waiter::Waiter;
use crate::watch::{OnStarted, ReaderWatch};

/// The settings of a reader.
#[derive(Clone)]
pub struct ReaderConfig {
    /// The limit of elements that are granted, in flight or buffered, over all workers.
    pub max_outstanding: MaxOutstanding,
    /// The limit of outstanding bytes; default 256 MiB. In coordinated reads, the element of the next turn
    /// may exceed the limit.
    pub max_outstanding_bytes: u64,
    /// The number of this consumer in a coordinated read; `None` in all other reads. Default `None`.
    pub consumer: Option<u32>,
    /// The name of this trainer; set exactly if the job has the cross-trainer cache. Readers with the same
    /// name share one position in the cache, so that each element goes to one of them. Default `None`.
    pub trainer_id: Option<String>,
    /// True if other readers may share the job. For a shared job, `Auto` prefetches no more elements than the
    /// reader used within the last second. Default false; a service sets true for jobs that have a name.
    pub is_shared: bool,
    /// True if every split has at most one element, so that a reader that holds an element holds its whole
    /// split. With such splits, the loss of a worker does not lose splits whose elements have arrived.
    /// Default false.
    pub whole_splits: bool,
    /// True if the job is an exactly-once job, which loses no splits: splits that the dispatcher calls lost
    /// belong to a task that failed, and the failure is reported. Default false.
    pub is_exactly_once: bool,
    /// The time for which a live worker may be out of reach before reading fails, if no other worker has
    /// elements left. Default 30 s. A worker that answers but does not know its task has four times as long.
    /// Time without a connection to the dispatcher does not count.
    pub worker_give_up: Duration,
    /// The time for which a reader waits for its first worker. Default 1 h, because clusters that grow on
    /// demand start without workers.
    pub no_workers_give_up: Duration,
    /// The longest sleep of a blocked thread before it checks again for elements, so that a missed wake-up
    /// cannot block the thread forever. Default 500 ms.
    pub look_up_every: Duration,
    /// The reader's behaviour at the end of an iteration that lost splits. Default [`OnLost::Raise`].
    pub on_lost: OnLost,
    /// The callback for notices to the user. By default, notices are logged as warnings.
    pub on_notice: Option<OnNotice>,
    /// The callback for the watch of the reader, for viewers on other threads.
    pub on_started: Option<OnStarted>,
    /// A callback for gauges. The reader calls it for each element that it hands over, before the element's
    /// credit is free.
    pub on_handed: Option<OnHanded>,
    /// The tracer of the elements of sampled splits. Default off.
    pub tracer: Tracer,
    /// The waits of the user, if another thread prefetches elements from the reader for the user. The
    /// reported pace is then the pace of the user. Default `None`: the user takes elements from the reader.
    pub user_waits: Option<Arc<WaitClock>>,
}

impl std::fmt::Debug for ReaderConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReaderConfig")
            .field("max_outstanding", &self.max_outstanding)
            .field("max_outstanding_bytes", &self.max_outstanding_bytes)
            .field("consumer", &self.consumer)
            .field("trainer_id", &self.trainer_id)
            .field("is_shared", &self.is_shared)
            .field("whole_splits", &self.whole_splits)
            .field("worker_give_up", &self.worker_give_up)
            .field("look_up_every", &self.look_up_every)
            .field("on_lost", &self.on_lost)
            .finish_non_exhaustive()
    }
}

impl Default for ReaderConfig {
    fn default() -> Self {
        Self {
            max_outstanding: MaxOutstanding::Auto,
            max_outstanding_bytes: 256 << 20,
            consumer: None,
            trainer_id: None,
            is_shared: false,
            whole_splits: false,
            is_exactly_once: false,
            worker_give_up: Duration::from_secs(30),
            no_workers_give_up: Duration::from_secs(3600),
            look_up_every: Duration::from_millis(500),
            on_lost: OnLost::default(),
            on_notice: None,
            on_started: None,
            on_handed: None,
            tracer: Tracer::default(),
            user_waits: None,
        }
    }
}

/// Reads one iteration. The reader requests elements from workers only after the user has asked for a first
/// element.
#[derive(Debug)]
pub struct Reader {
    cursor: Cursor,
    intake: Arc<Intake>,
    watch: ReaderWatch,
    stopwatch: Stopwatch,
    waiting_since: Option<Instant>,
    is_done: bool,
    look_up_every: Duration,
    on_lost: OnLost,
    /// True if the reader has already reported the lost splits to the user at the end of the iteration.
    has_told_loss: bool,
    /// Dropping the sender ends the task that follows the iteration.
    _alive: oneshot::Sender<Infallible>,
    // Fields drop in declaration order: the task must end before its lane.
    _following: LaneTask<()>,
    _lane: Arc<Lane>,
}

/// A handle that ends a reader from another thread.
#[derive(Debug, Clone)]
pub struct Canceller {
    intake: Arc<Intake>,
}

impl Canceller {
    /// Ends the reader. A caller that waits for an element receives the elements that had arrived, then
    /// [`ReadError::Cancelled`].
    pub fn cancel(&self) {
        self.intake.cancel();
    }
}

impl Reader {
    /// Starts a reader of the tasks that `feed` announces, on the thread `lane`. The reader makes its links
    /// with `connector`.
    pub fn start(lane: Arc<Lane>, connector: Arc<dyn Connector>, feed: Feed, config: &ReaderConfig) -> Self {
        // Consumers and trainers receive their own elements, which no other reader could take.
        let shares = config.is_shared && config.consumer.is_none() && config.trainer_id.is_none();
        let bounds = Bounds {
            max_outstanding: config.max_outstanding,
            auto_bytes: AUTO_BYTES_MIN,
            shared: shares.then_some(0),
            max_outstanding_bytes: config.max_outstanding_bytes,
        };
        // The pool has twice the limit, because elements that the user still holds occupy memory but are no
        // longer outstanding.
        let pool_bytes =
            usize::try_from(config.max_outstanding_bytes.saturating_mul(2)).unwrap_or(usize::MAX);
        let alloc: Arc<dyn SlotAlloc> = Arc::new(crate::alloc::Spill::new(Pool::new(pool_bytes)));
        let stopwatch = Stopwatch::new(feed.pace.clone());
        let trainer_id = config.trainer_id.as_deref().map(Arc::from);
        let notices = Notices::new(config.on_notice.clone());
        let reading = Reading {
            bounds,
            is_coordinated: config.consumer.is_some(),
            trainer_id,
            whole_splits: config.whole_splits,
            is_exactly_once: config.is_exactly_once,
        };
        let intake = Arc::new(Intake::new(reading, alloc, notices));
        let seen = Arc::downgrade(&intake);
        feed.pace.show_links(move || {
            let intake = seen.upgrade();
            intake.map_or_else(ClientLinks::default, |intake| {
                intake.look(ReaderCore::client_links)
            })
        });
        if let Some(waits) = &config.user_waits {
            feed.pace.prefetch_for(Arc::clone(waits));
        }
        let watch = ReaderWatch::new(&intake);
        if let Some(on_started) = &config.on_started {
            on_started(watch.clone());
        }
        let waiter = Arc::new(Waiter::new(intake.clone()));
        let (alive, gone) = oneshot::channel();
        let patience = Patience {
            worker: config.worker_give_up,
            workers: config.no_workers_give_up,
        };
        let following = follow(waiter.clone(), connector, feed, patience, gone);
        let what = "the task that follows the iteration".to_owned();
        let following = lane.spawn(guard(intake.clone(), what, following));
        Self {
            cursor: Cursor::new(waiter, config.on_handed.clone(), config.tracer.clone()),
            intake,
            watch,
            stopwatch,
            waiting_since: None,
            is_done: false,
            look_up_every: config.look_up_every,
            on_lost: config.on_lost,
            has_told_loss: false,
            _alive: alive,
            _following: following,
            _lane: lane,
        }
    }

    /// Returns the next element, and blocks the thread until an element is available. Returns `None` at the
    /// end of the iteration, and again from each later call.
    ///
    /// # Errors
    /// Returns a [`ReadError`] after all elements that arrived before it, and the same error from each later
    /// call. The end of an iteration that lost splits is an error too, unless [`ReaderConfig::on_lost`] says
    /// otherwise.
    pub fn next_element(&mut self) -> Result<Option<Element>, ReadError> {
        if let Some(handover) = self.cursor.next_at_hand() {
            return self.hand_over(handover);
        }
        let since = Instant::now();
        self.stopwatch.waiting_since(since);
        loop {
            if let Poll::Ready(handover) = self.cursor.wait_next(self.look_up_every) {
                self.stopwatch.waited(since.elapsed());
                return self.hand_over(handover);
            }
        }
    }

    /// Returns the next element of the pack that is already open; never blocks. `None` does not mean the end
    /// of the iteration.
    ///
    /// # Errors
    /// Fails like [`Reader::next_element`].
    #[inline]
    pub fn try_element(&mut self) -> Option<Result<Option<Element>, ReadError>> {
        let handover = self.cursor.next_at_hand()?;
        Some(self.hand_over(handover))
    }

    /// Returns the next element. Blocks the thread for at most `patience`; after `Pending` the caller may
    /// call again.
    ///
    /// # Errors
    /// Fails like [`Reader::next_element`].
    pub fn wait_element(&mut self, patience: Duration) -> Poll<Result<Option<Element>, ReadError>> {
        if let Some(handover) = self.try_element() {
            return Poll::Ready(handover);
        }
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        self.stopwatch.waiting_since(since);
        let handover = std::task::ready!(self.cursor.wait_next(patience.min(self.look_up_every)));
        self.stopwatch.waited(since.elapsed());
        self.waiting_since = None;
        Poll::Ready(self.hand_over(handover))
    }

    /// Ends a wait in [`Reader::wait_element`] that the caller has given up. Otherwise the reader reports
    /// that its user waits until the next element arrives.
    pub fn end_wait(&mut self) {
        if let Some(since) = self.waiting_since.take() {
            self.stopwatch.waited(since.elapsed());
        }
    }

    /// Polls for the next element, for an async caller. Cancel-safe: an element is either returned or stays
    /// in the reader.
    pub fn poll_element(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Element>, ReadError>> {
        if let Some(handover) = self.cursor.next_at_hand() {
            return Poll::Ready(self.hand_over(handover));
        }
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        self.stopwatch.waiting_since(since);
        let handover = std::task::ready!(self.cursor.poll_next(cx));
        self.stopwatch.waited(since.elapsed());
        self.waiting_since = None;
        Poll::Ready(self.hand_over(handover))
    }

    /// Blocks the thread while this reader's lease may have ended (C4.4). A consumer that stores elements
    /// calls the method before it hands one over. While the lease is confirmed, the call costs an atomic
    /// load.
    ///
    /// # Errors
    /// Returns the [`ReadError`] that ended reading, if the lease is not confirmed again.
    #[inline]
    pub fn wait_for_lease(&self) -> Result<(), ReadError> {
        self.intake.wait_for_lease()
    }

    /// Keeps counting the latest element as outstanding, because the consumer stores it until elements of
    /// other workers arrive. While any element is kept, no worker may hold more than its share of the
    /// outstanding elements, so that fast workers wait for slow workers. Returns the element's task, for
    /// [`Reader::let_go`]; `None` if no element was handed over.
    pub fn keep(&self) -> Option<TaskId> {
        let task = self.cursor.task_at_hand()?;
        self.intake.act(|core| core.keep(task));
        Some(task)
    }

    /// Stops counting one kept element of the task as outstanding, after the consumer has used the element.
    pub fn let_go(&self, task: TaskId) {
        self.intake.act(|core| core.let_go(task));
    }

    /// Records that the consumer buffers this number of handed-over elements for its user. The reported pace
    /// is then the pace at which the user gets elements. The statistics count buffered elements as handed
    /// over.
    pub fn note_buffered(&self, elements: usize) {
        self.stopwatch.buffered(elements as u64);
    }

    /// Returns the trace of the split of the element that was handed over last, if the split is sampled.
    pub fn trace_of(&self, element: &Element) -> Option<SplitTrace> {
        self.cursor.trace_of(element)
    }

    /// Returns the splits that are known to be lost.
    pub fn lost_splits(&self) -> Vec<LostSplits> {
        self.intake.look(ReaderCore::lost_splits)
    }

    /// Returns the statistics collected so far.
    pub fn stats(&self) -> ReaderStats {
        let lost_splits = self.intake.look(ReaderCore::lost_splits);
        let looks = self.intake.look(ReaderCore::looks);
        let links = self.intake.links();
        let now = Instant::now();
        let waits = self.waiting_since.map(|since| now.duration_since(since));
        self.stopwatch
            .stats(now, waits.unwrap_or_default(), looks, lost_splits, links)
    }

    /// Returns the losses so far, with the workers that held the splits; `None` if no split was lost.
    pub fn loss(&self) -> Option<DataLoss> {
        self.intake.look(ReaderCore::loss)
    }

    /// Returns the latest known properties of the links to the workers, by worker address.
    pub fn links(&self) -> BTreeMap<String, LinkReport> {
        self.intake.links()
    }

    /// Returns a handle that ends this reader from another thread.
    pub fn canceller(&self) -> Canceller {
        Canceller {
            intake: self.intake.clone(),
        }
    }

    fn hand_over(
        &mut self,
        handover: Result<Option<Element>, ReadError>,
    ) -> Result<Option<Element>, ReadError> {
        match &handover {
            Ok(Some(element)) => self.stopwatch.handed_over(element.slot().len()),
            Ok(None) => return self.end(),
            Err(_) => {}
        }
        handover
    }

    /// Returns the end of the iteration, or the error for lost splits.
    fn end(&mut self) -> Result<Option<Element>, ReadError> {
        let loss = match self.on_lost {
            OnLost::Raise | OnLost::Warn => self.intake.look(ReaderCore::loss),
            OnLost::Ignore => None,
        };
        match (loss, self.on_lost) {
            (Some(loss), OnLost::Raise) => return Err(ReadError::DataLost(loss)),
            (Some(loss), _) if !std::mem::replace(&mut self.has_told_loss, true) => {
                self.intake.tell([Notice::DataLost(loss)]);
            }
            (Some(_) | None, _) => {}
        }
        Ok(None)
    }
}

impl Iterator for Reader {
    type Item = Result<Element, ReadError>;

    /// Returns the next element or the error that ended the reader. Returns `None` after the end or after an
    /// error.
    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let next = self.next_element().transpose();
        self.is_done = !matches!(next, Some(Ok(_)));
        next
    }
}

impl Stream for Reader {
    type Item = Result<Element, ReadError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.is_done {
            return Poll::Ready(None);
        }
        let next = std::task::ready!(self.poll_element(cx)).transpose();
        self.is_done = !matches!(next, Some(Ok(_)));
        Poll::Ready(next)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.watch.end();
        self.intake.cancel();
    }
}
