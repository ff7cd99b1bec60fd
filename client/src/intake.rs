//! The reader core with its lock, shared between the reader's lane thread and its consumer.
//!
//! This file owns the lock, the clock, and the wake-ups: it wakes links when the core has messages, and the
//! consumer when the core has elements. The lock is taken once for each pack and once every few elements.
//! This file does not know the meaning of frames and events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::task::AtomicWaker;
use millstream_dataplane::TaskId;
use millstream_dataplane::proto::receive::ReceiveError;
use millstream_dataplane::transport::{Admission, Downstream, LinkLost, LinkReport, Nap};
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

/// The next elements, the end of the iteration, or the error that ended reading. `Pending` until any of these
/// is available.
pub(crate) type Next = Poll<Result<Option<Handing>, ReadError>>;

/// The time between two looks at a lease that may have ended.
const LEASE_LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct Intake {
    locked: Mutex<Locked>,
    /// The number of elements of the current delivery that the consumer has handed over. Only the consumer
    /// writes this field.
    handed: AtomicU64,
    /// A copy of [`ReaderCore::is_fenced`], which the consumer reads without the lock.
    is_fenced: AtomicBool,
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
    /// The wakers of the links that wait for messages, by worker.
    bells: BTreeMap<Arc<str>, Waker>,
}

impl Locked {
    /// Wakes the links that have new messages. With `is_consumer`, skips the links within the host, because
    /// the consumer's thread carries those.
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
            is_fenced: AtomicBool::new(false),
            arrived: Condvar::new(),
            consumer: AtomicWaker::new(),
            nap: Nap::default(),
            alloc,
            copies: Copies::default(),
            notices,
        }
    }

    /// Calls `look` with the core under the lock.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&ReaderCore) -> R) -> R {
        look(&self.locked.lock().core)
    }

    /// Calls `act` with the core under the lock, then wakes the links that have new messages.
    pub(crate) fn act<R>(&self, act: impl FnOnce(&mut ReaderCore) -> R) -> R {
        let mut locked = self.locked.lock();
        locked.core.pass(Instant::now());
        let result = act(&mut locked.core);
        locked.ring(false);
        result
    }

    /// Calls `act` with the core under the lock. Then wakes the links that have new messages, and wakes the
    /// consumer if the core has a result.
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

    // Calls of the lane thread.

    /// Handles an event of the iteration, and notifies the user if the event requires it. Returns the work
    /// that the caller must do.
    pub(crate) fn obey(&self, event: TaskEvent) -> Obeyed {
        let (obeyed, notice) = self.act_and_wake(|core| {
            let obeyed = core.obey(event);
            self.is_fenced.store(core.is_fenced(), Ordering::Relaxed);
            obeyed
        });
        self.tell(notice);
        obeyed
    }

    /// Ends reading with an error, which the consumer receives after the elements that arrived before.
    pub(crate) fn fail(&self, error: ReadError) {
        self.act_and_wake(|core| core.fail(error));
    }

    /// Handles a frame from a worker. `is_consumer` says whether the caller is the consumer's thread.
    ///
    /// # Errors
    /// Fails if the worker broke the protocol.
    pub(crate) fn handle(&self, worker: &str, frame: Downstream, is_consumer: bool) -> Result<(), LinkLost> {
        self.change(is_consumer, |core| core.handle(worker, frame))
    }

    /// Handles a new link to a worker: greets the worker, and subscribes to its tasks.
    pub(crate) fn handle_link_up(&self, worker: &str, place: &WorkerPlace, is_local: bool) {
        self.act(|core| core.handle_link_up(worker, place, is_local));
    }

    /// Handles the loss of a link: writes off the credits of the link's tasks.
    pub(crate) fn handle_link_lost(&self, worker: &str) {
        self.act_and_wake(|core| core.handle_link_lost(worker));
    }

    /// Takes the next message for a worker, or registers the waker and returns `Pending`.
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

    /// Returns the place of the worker if the reader still reads any of its tasks. After `None`, a later task
    /// of the worker needs a new driver.
    pub(crate) fn place_if_wanted(&self, worker: &str) -> Option<WorkerPlace> {
        let mut locked = self.locked.lock();
        let place = locked.core.place_if_wanted(worker);
        if place.is_none() {
            locked.bells.remove(worker);
        }
        place
    }

    /// Notes a failed attempt to reach a worker, and notifies the user when a notice is due.
    pub(crate) fn note_failed_attempt(&self, worker: &str, failed: &NotConnected, give_up: Duration) {
        let notice = self.act_and_wake(|core| core.note_failed_attempt(worker, failed, give_up));
        self.tell(notice);
    }

    /// Repeats the subscriptions to tasks that their workers did not know, and notifies the user when a
    /// notice is due.
    pub(crate) fn ask_again(&self, give_up: Duration) {
        let notices = self.act_and_wake(|core| core.ask_again(give_up));
        self.tell(notices);
    }

    /// Checks whether the reader has any task to read, and notifies the user when a notice is due.
    pub(crate) fn look_for_tasks(&self, dispatcher: &str, give_up: Duration) {
        let notice = self.act_and_wake(|core| core.look_for_tasks(dispatcher, give_up));
        self.tell(notice);
    }

    /// Sends notices to the user. Must not be called under the lock.
    pub(crate) fn tell(&self, notices: impl IntoIterator<Item = Notice>) {
        for notice in notices {
            self.notices.tell(&notice);
        }
    }

    /// Books the elements that the consumer handed over, and acknowledges arrived elements to workers.
    /// Returns false if nothing changed.
    pub(crate) fn tick(&self) -> bool {
        self.act(|core| core.tick(self.handed()))
    }

    // Calls of the consumer.

    /// Blocks the consumer's thread while the lease may have ended (C4.4).
    ///
    /// # Errors
    /// Reading has ended with this error, and the lease was not confirmed again.
    #[inline]
    pub(crate) fn wait_for_lease(&self) -> Result<(), ReadError> {
        while self.is_fenced.load(Ordering::Relaxed) {
            if let Some(error) = self.look(ReaderCore::failure) {
                return Err(error);
            }
            self.sleep(std::time::Instant::now() + LEASE_LOOK_EVERY);
        }
        Ok(())
    }

    /// Returns the next elements, or registers the waker and returns `Pending`.
    pub(crate) fn poll_next(&self, cx: &mut Context<'_>) -> Next {
        self.consumer.register(cx.waker());
        self.act(|core| self.next(core))
    }

    /// Calls `act` from the consumer's thread. The second result says whether messages wait for workers on
    /// this host, which the consumer's thread then carries.
    pub(crate) fn as_consumer<R>(&self, act: impl FnOnce(&mut ReaderCore) -> R) -> (R, bool) {
        let mut locked = self.locked.lock();
        locked.core.pass(Instant::now());
        let result = act(&mut locked.core);
        locked.ring(true);
        (result, locked.core.is_to_carry())
    }

    /// Returns the next elements from the core, whose lock the caller holds.
    pub(crate) fn next(&self, core: &mut ReaderCore) -> Next {
        let next = core.next(self.handed());
        if let Poll::Ready(Ok(Some(_))) = next {
            self.handed.store(0, Ordering::Release);
        }
        next
    }

    /// Notes how many elements of the current delivery were handed over.
    pub(crate) fn count_handed(&self, elements: u64) {
        self.handed.store(elements, Ordering::Release);
    }

    /// Returns how many elements of the current delivery were handed over.
    pub(crate) fn handed(&self) -> u64 {
        self.handed.load(Ordering::Acquire)
    }

    /// Notes the pack that the consumer opened, and the leases that the consumer found in the previous pack.
    /// Returns how many elements the consumer may hand over before it must report them to the core.
    pub(crate) fn note_at_hand(&self, task: TaskId, pack: &Pack, leases: &mut Vec<(TaskId, u64)>) -> u64 {
        self.act(|core| {
            core.note_at_hand(task, pack, leases);
            core.settle_every()
        })
    }

    /// Cancels every subscription, and ends reading.
    pub(crate) fn cancel(&self) {
        self.act_and_wake(|core| core.cancel(self.handed()));
    }

    /// Sleeps until the core has a result for the consumer. Returns whether the sleep timed out.
    pub(crate) fn sleep(&self, until: std::time::Instant) -> bool {
        let mut locked = self.locked.lock();
        !locked.core.has_something() && self.arrived.wait_until(&mut locked, until).timed_out()
    }

    /// Returns the place where the consumer's thread sleeps.
    pub(crate) fn nap(&self) -> &Nap {
        &self.nap
    }

    /// Returns the latest report on each link, by worker, with the number of bytes copied so far.
    pub(crate) fn links(&self) -> BTreeMap<String, LinkReport> {
        let mut reports = self.look(|core| core.reports().clone());
        for (worker, report) in &mut reports {
            report.bytes_copied = self.copies.bytes(worker);
        }
        reports
    }

    /// Returns the counts of copied bytes.
    pub(crate) fn copies(&self) -> &Copies {
        &self.copies
    }

    /// Returns the allocator for decompressed elements.
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

#[cfg(test)]
mod tests {
    use millstream_element::HeapAlloc;

    use super::*;
    use crate::reader_core::credit::{Bounds, MaxOutstanding};

    fn intake() -> Intake {
        let reading = Reading {
            bounds: Bounds {
                max_outstanding: MaxOutstanding::Elements(4),
                auto_bytes: 0,
                shared: None,
                max_outstanding_bytes: 1 << 20,
            },
            is_coordinated: false,
            trainer_id: None,
            whole_splits: false,
            is_exactly_once: true,
        };
        Intake::new(reading, Arc::new(HeapAlloc), Notices::default())
    }

    /// Checks C4.4 for consumers that store elements.
    #[test]
    fn stored_elements_wait_for_the_lease() {
        for (event, expected) in [
            (TaskEvent::LeaseDoubted(false), Ok(())),
            (TaskEvent::Lapsed, Err(ReadError::Lapsed)),
        ] {
            let intake = intake();
            assert_eq!(intake.wait_for_lease(), Ok(()));
            intake.obey(TaskEvent::LeaseDoubted(true));
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| intake.wait_for_lease());
                std::thread::sleep(3 * LEASE_LOOK_EVERY);
                assert!(!waiting.is_finished());
                intake.obey(event);
                assert_eq!(waiting.join().unwrap(), expected);
            });
        }
    }
}
