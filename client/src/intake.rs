//! The reader's core behind its lock, shared between the reader's lane and its consumer.
//!
//! Owns the lock, the clock, and who is woken by what comes out of the core: links for messages, the consumer
//! for elements. The lock is taken once a pack, and once every few elements. Refuses to know what frames and
//! events mean.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use millstream_dataplane::TaskId;
use millstream_dataplane::proto::receive::ReceiveError;
use millstream_dataplane::transport::{Admission, Downstream, InPack, LinkLost, LinkReport, Nap};
use millstream_element::{Pack, SlotAlloc};
use parking_lot::{Condvar, Mutex};
use tokio::time::Instant;

use crate::connector::NotConnected;
use crate::copies::Copies;
use crate::error::ReadError;
use crate::event::TaskEvent;
use crate::notice::{Notice, Notices};
use crate::place::WorkerPlace;
use crate::reader_core::{Handing, Obeyed, Outgoing, ReaderCore, Reading};

/// The next elements, the end of the iteration, or the reason why nothing follows; pending while there is
/// nothing.
pub(crate) type Next = Poll<Result<Option<Handing>, ReadError>>;

#[derive(Debug)]
pub(crate) struct Intake {
    locked: Mutex<Locked>,
    /// Elements of the delivery at hand that the consumer has handed over; only the consumer writes it.
    handed: AtomicU64,
    arrived: Condvar,
    consumer: AtomicWaker,
    nap: Nap,
    alloc: Arc<dyn SlotAlloc>,
    copies: Copies,
    notices: Notices,
}

#[derive(Debug)]
struct Locked {
    core: ReaderCore,
    /// The wakers of the links that wait for messages.
    bells: BTreeMap<Arc<str>, Waker>,
}

impl Locked {
    /// Wakes the links that have got messages. The consumer carries those of its own host itself.
    fn ring(&mut self, is_consumer: bool) {
        for (worker, is_local) in self.core.take_stirred() {
            if let Some(bell) = self.bells.get(&worker).filter(|_| !(is_consumer && is_local)) {
                bell.wake_by_ref();
            }
        }
    }
}

impl Intake {
    pub(crate) fn new(reading: Reading, alloc: Arc<dyn SlotAlloc>, notices: Notices) -> Self {
        let locked = Locked {
            core: ReaderCore::new(reading, Instant::now()),
            bells: BTreeMap::new(),
        };
        Self {
            locked: Mutex::new(locked),
            handed: AtomicU64::new(0),
            arrived: Condvar::new(),
            consumer: AtomicWaker::new(),
            nap: Nap::default(),
            alloc,
            copies: Copies::default(),
            notices,
        }
    }

    /// Looks at the core.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&ReaderCore) -> R) -> R {
        look(&self.locked.lock().core)
    }

    /// Tells the core of something, and wakes the links that have got messages.
    pub(crate) fn act<R>(&self, act: impl FnOnce(&mut ReaderCore) -> R) -> R {
        let mut locked = self.locked.lock();
        locked.core.pass(Instant::now());
        let result = act(&mut locked.core);
        locked.ring(false);
        result
    }

    /// Tells the core of something, and wakes the consumer, too, if there is something for it.
    pub(crate) fn act_and_wake<R>(&self, act: impl FnOnce(&mut ReaderCore) -> R) -> R {
        self.change(false, act)
    }

    fn change<R>(&self, is_consumer: bool, act: impl FnOnce(&mut ReaderCore) -> R) -> R {
        let mut locked = self.locked.lock();
        locked.core.pass(Instant::now());
        let result = act(&mut locked.core);
        locked.ring(is_consumer);
        if locked.core.has_something() {
            self.arrived.notify_all();
            self.nap.wake();
            self.consumer.wake();
        }
        result
    }

    // The calls of the lane.

    /// Takes an event of the iteration, and tells the user what the event asks for. Returns the work that is
    /// left.
    pub(crate) fn obey(&self, event: TaskEvent) -> Obeyed {
        let (obeyed, notice) = self.act_and_wake(|core| core.obey(event));
        self.tell(notice);
        obeyed
    }

    /// Ends reading with an error, after the elements that arrived before.
    pub(crate) fn fail(&self, error: ReadError) {
        self.act_and_wake(|core| core.fail(error));
    }

    /// Takes a frame from a worker. `is_consumer` says that the consumer's thread does so.
    ///
    /// # Errors
    /// The worker broke the protocol.
    pub(crate) fn handle(
        &self,
        worker: &str,
        frame: Downstream<InPack>,
        is_consumer: bool,
    ) -> Result<(), LinkLost> {
        self.change(is_consumer, |core| core.handle(worker, frame))
    }

    /// A link to a worker is up: greets the worker and subscribes to its tasks.
    pub(crate) fn handle_link_up(&self, worker: &str, place: &WorkerPlace, is_local: bool) {
        self.act(|core| core.handle_link_up(worker, place, is_local));
    }

    /// A link broke: writes off its credits.
    pub(crate) fn handle_link_lost(&self, worker: &str) {
        self.act_and_wake(|core| core.handle_link_lost(worker));
    }

    /// Takes the next message for a worker, or arranges to be woken for it.
    pub(crate) fn poll_outbox(&self, worker: &str, cx: &mut Context<'_>) -> Poll<Outgoing> {
        let mut locked = self.locked.lock();
        if let Some(outgoing) = locked.core.next_message(worker) {
            return Poll::Ready(outgoing);
        }
        match locked.bells.get_mut(worker) {
            Some(bell) => bell.clone_from(cx.waker()),
            None => {
                locked.bells.insert(worker.into(), cx.waker().clone());
            }
        }
        Poll::Pending
    }

    /// Returns the place of the worker if any task of it is still to be read. If not, a later task of it
    /// needs a new driver.
    pub(crate) fn place_if_wanted(&self, worker: &str) -> Option<WorkerPlace> {
        let mut locked = self.locked.lock();
        let place = locked.core.place_if_wanted(worker);
        if place.is_none() {
            locked.bells.remove(worker);
        }
        place
    }

    /// Notes a failed attempt to reach a worker, and tells the user when that is due.
    pub(crate) fn note_failed_attempt(&self, worker: &str, failed: &NotConnected, give_up: Duration) {
        let notice = self.act_and_wake(|core| core.note_failed_attempt(worker, failed, give_up));
        self.tell(notice);
    }

    /// Asks again for tasks that their workers did not know, and tells the user when that is due.
    pub(crate) fn ask_again(&self, give_up: Duration) {
        let notices = self.act_and_wake(|core| core.ask_again(give_up));
        self.tell(notices);
    }

    /// Looks whether there is anything to read, and tells the user when that is due.
    pub(crate) fn look_for_tasks(&self, dispatcher: &str, give_up: Duration) {
        let notice = self.act_and_wake(|core| core.look_for_tasks(dispatcher, give_up));
        self.tell(notice);
    }

    /// Tells the user. Not under the lock.
    pub(crate) fn tell(&self, notices: impl IntoIterator<Item = Notice>) {
        for notice in notices {
            self.notices.tell(&notice);
        }
    }

    /// Notes what the consumer handed over, and tells workers what arrived. Returns false if that was
    /// nothing.
    pub(crate) fn tick(&self) -> bool {
        self.act(|core| core.tick(self.handed()))
    }

    // The calls of the consumer.

    /// Returns the next elements, or registers the waker.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Next {
        self.consumer.register(cx.waker());
        self.act(|core| self.next(core))
    }

    /// Tells the core of something from the consumer's thread, which then carries messages for workers of its
    /// host: the second result says whether there are any.
    pub(crate) fn as_consumer<R>(&self, act: impl FnOnce(&mut ReaderCore) -> R) -> (R, bool) {
        let mut locked = self.locked.lock();
        locked.core.pass(Instant::now());
        let result = act(&mut locked.core);
        locked.ring(true);
        (result, locked.core.is_to_carry())
    }

    /// Returns the next elements under the lock.
    pub(crate) fn next(&self, core: &mut ReaderCore) -> Next {
        let next = core.next(self.handed());
        if let Poll::Ready(Ok(Some(_))) = next {
            self.handed.store(0, Ordering::Release);
        }
        next
    }

    /// Notes the number of elements of the delivery at hand that were handed over.
    pub(crate) fn count_handed(&self, elements: u64) {
        self.handed.store(elements, Ordering::Release);
    }

    /// Returns the number of elements of the delivery at hand that were handed over.
    pub(crate) fn handed(&self) -> u64 {
        self.handed.load(Ordering::Acquire)
    }

    /// Notes the pack that the consumer takes in hand, and the leases that it met in the pack before. Returns
    /// how many hand-overs may go unreported.
    pub(crate) fn note_at_hand(&self, task: TaskId, pack: &Pack, leases: &mut Vec<(TaskId, u64)>) -> u64 {
        self.act(|core| {
            core.note_at_hand(task, pack, leases);
            core.settle_every()
        })
    }

    /// Stops wanting anything: cancels every subscription.
    pub(crate) fn cancel(&self) {
        self.act_and_wake(|core| core.cancel(self.handed()));
    }

    /// Sleeps until the lane has something for the consumer. Returns whether the time is over before.
    pub(crate) fn sleep(&self, until: std::time::Instant) -> bool {
        let mut locked = self.locked.lock();
        !locked.core.has_something() && self.arrived.wait_until(&mut locked, until).timed_out()
    }

    /// The nap of the consumer's thread.
    pub(crate) fn nap(&self) -> &Nap {
        &self.nap
    }

    /// Returns the latest report on each link, by worker, and what was copied by now.
    pub(crate) fn links(&self) -> BTreeMap<String, LinkReport> {
        let mut reports = self.look(|core| core.reports().clone());
        for (worker, report) in &mut reports {
            report.bytes_copied = self.copies.bytes(worker);
        }
        reports
    }

    /// The account of copied bytes.
    pub(crate) fn copies(&self) -> &Copies {
        &self.copies
    }

    /// The memory for decompressed elements.
    pub(crate) fn alloc(&self) -> &Arc<dyn SlotAlloc> {
        &self.alloc
    }
}

impl Admission for Intake {
    fn admit(&self, task: TaskId, first: u64, elements: u64, region_bytes: u64) -> Result<(), ReceiveError> {
        let mut locked = self.locked.lock();
        locked.core.admit(task, first, elements, region_bytes)
    }

    fn slot_alloc(&self) -> &dyn SlotAlloc {
        &*self.alloc
    }
}
