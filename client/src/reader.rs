//! The reader of an iteration: elements as an async stream or one by one on a thread.
//!
//! Owns the lane on which its links live; dropping the reader ends them. Buffers at most what
//! `max_outstanding` and `max_outstanding_bytes` allow.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::Stream;
use millstream_dataplane::TaskId;
use millstream_dataplane::transport::LinkReport;
use millstream_element::{Element, Pool, SlotAlloc};
use millstream_link::{Lane, LaneTask};
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
use crate::waiter::Waiter;

/// The settings of a reader.
#[derive(Clone)]
pub struct ReaderConfig {
    /// Elements granted, in flight or buffered, over all workers.
    pub max_outstanding: MaxOutstanding,
    /// Bytes of them; default 256 MiB. In coordinated reads the element that comes next is taken beyond it.
    pub max_outstanding_bytes: u64,
    /// The number of this consumer among those that read in step, in coordinated reads. Default none.
    pub consumer: Option<u32>,
    /// The name of this trainer, where the job has the cross-trainer cache, and only there. Readers of one
    /// name share one place in the cache, so that each gets a part. Default none.
    pub trainer_id: Option<String>,
    /// Whether other readers may share the job. Under `Auto` this one then takes no more ahead than it has
    /// lately used. Default no; a service says so of jobs that have a name.
    pub is_shared: bool,
    /// Whether a split is one element at most, so that a reader that has an element has all of its split.
    /// Then no split of a worker that has gone is reported lost though its element is here; default false.
    pub whole_splits: bool,
    /// Time that a live worker may be out of reach before reading fails, if nothing else is left to read;
    /// default 30 s. A worker that answers and does not know its task has four times as long. Time in which
    /// the dispatcher is out of reach does not count.
    pub worker_give_up: Duration,
    /// The time for which a reader waits for a first worker. Default 1 h, since clusters that grow on demand
    /// have none at first.
    pub no_workers_give_up: Duration,
    /// The time after which a blocked thread looks up by itself, so that nothing can keep it for ever.
    /// Default 500 ms.
    pub look_up_every: Duration,
    /// The end of an iteration whose splits were lost with their worker. Default [`OnLost::Raise`].
    pub on_lost: OnLost,
    /// Is told what the user should hear of; default: that goes to the log, as warnings.
    pub on_notice: Option<OnNotice>,
    /// Is called for each element that is handed over, before its credit is free; for gauges.
    pub on_handed: Option<OnHanded>,
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
            worker_give_up: Duration::from_secs(30),
            no_workers_give_up: Duration::from_secs(3600),
            look_up_every: Duration::from_millis(500),
            on_lost: OnLost::default(),
            on_notice: None,
            on_handed: None,
        }
    }
}

/// Reads one iteration. Nothing is asked of any worker before the first element is asked for.
#[derive(Debug)]
pub struct Reader {
    cursor: Cursor,
    intake: Arc<Intake>,
    stopwatch: Stopwatch,
    waiting_since: Option<Instant>,
    is_done: bool,
    look_up_every: Duration,
    on_lost: OnLost,
    /// The user was told at the end what was lost.
    has_told_loss: bool,
    /// Dropping it ends what follows the iteration.
    _alive: oneshot::Sender<Infallible>,
    // Dropped in this order: the tasks on the lane, then the lane.
    _following: LaneTask<()>,
    _lane: Arc<Lane>,
}

/// Ends a reader from another thread.
#[derive(Debug, Clone)]
pub struct Canceller {
    intake: Arc<Intake>,
}

impl Canceller {
    /// Ends the reader: a caller that waits for an element gets [`ReadError::Cancelled`], after what had
    /// arrived.
    pub fn cancel(&self) {
        self.intake.cancel();
    }
}

impl Reader {
    /// A reader of the tasks that `feed` tells of, over links that `connector` makes, living on `lane`.
    pub fn start(lane: Arc<Lane>, connector: Arc<dyn Connector>, feed: Feed, config: &ReaderConfig) -> Self {
        // What consumers and trainers are given is theirs alone.
        let shares = config.is_shared && config.consumer.is_none() && config.trainer_id.is_none();
        let bounds = Bounds {
            max_outstanding: config.max_outstanding,
            auto_bytes: AUTO_BYTES_MIN,
            shared: shares.then_some(0),
            max_outstanding_bytes: config.max_outstanding_bytes,
        };
        // Twice the bound: what the consumer still holds is no longer outstanding but still here.
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
        };
        let intake = Arc::new(Intake::new(reading, alloc, notices));
        let waiter = Arc::new(Waiter::new(intake.clone()));
        let (alive, gone) = oneshot::channel();
        let patience = Patience {
            worker: config.worker_give_up,
            workers: config.no_workers_give_up,
        };
        let following = follow(waiter.clone(), connector, feed, patience, gone);
        let what = "what follows the iteration".to_owned();
        let following = lane.spawn(guard(intake.clone(), what, following));
        Self {
            cursor: Cursor::new(waiter, config.on_handed.clone()),
            intake,
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

    /// The next element; blocks the thread until there is one. `None` at the end, and again whenever asked.
    ///
    /// # Errors
    /// [`ReadError`], after everything that arrived before it; then the same again whenever asked. An end
    /// after which elements are missing is an error, too, unless [`ReaderConfig::on_lost`] says otherwise.
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

    /// The next element if it is at hand: of a pack that has been opened. `None` says nothing; never blocks.
    ///
    /// # Errors
    /// As [`Reader::next_element`].
    #[inline]
    pub fn try_element(&mut self) -> Option<Result<Option<Element>, ReadError>> {
        let handover = self.cursor.next_at_hand()?;
        Some(self.hand_over(handover))
    }

    /// The next element; blocks the thread for `patience` at most, and may be asked again.
    ///
    /// # Errors
    /// As [`Reader::next_element`].
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

    /// Polls for the next element, for an async caller. Cancel-safe: an element is either returned or still
    /// here.
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

    /// Has the element that was handed over last count as outstanding still, because the consumer keeps it
    /// until others come. While any does, no worker holds more than its share of what may be outstanding, so
    /// those that are ahead wait for the others. Returns whose it is, for [`Reader::let_go`]; `None`: nothing
    /// was handed over.
    pub fn keep(&self) -> Option<TaskId> {
        let task = self.cursor.task_at_hand()?;
        self.intake.act(|core| core.keep(task));
        Some(task)
    }

    /// The consumer has used an element of the task that it had kept.
    pub fn let_go(&self, task: TaskId) {
        self.intake.act(|core| core.let_go(task));
    }

    /// Returns the splits that are known to be lost.
    pub fn lost_splits(&self) -> Vec<LostSplits> {
        self.intake.look(ReaderCore::lost_splits)
    }

    /// Returns the statistics so far.
    pub fn stats(&self) -> ReaderStats {
        let lost_splits = self.intake.look(ReaderCore::lost_splits);
        let looks = self.intake.look(ReaderCore::looks);
        let links = self.intake.links();
        let now = Instant::now();
        let waits = self.waiting_since.map(|since| now.duration_since(since));
        self.stopwatch
            .stats(now, waits.unwrap_or_default(), looks, lost_splits, links)
    }

    /// Returns the losses so far, with the workers that had them; `None` if nothing was lost.
    pub fn loss(&self) -> Option<DataLoss> {
        self.intake.look(ReaderCore::loss)
    }

    /// Returns the properties of the links to the workers, by address, a moment ago.
    pub fn links(&self) -> BTreeMap<String, LinkReport> {
        self.intake.links()
    }

    /// A handle that ends this reader.
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

    /// The end, or that splits were lost.
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

    /// The next element, the error that ended the reader, or the end; nothing behind either.
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
        self.intake.cancel();
    }
}
