//! The wait of a consumer's thread for elements. The thread carries the links to workers on its own host
//! itself, and sleeps on all these links at once.
//!
//! A new element then wakes only the thread that wants the element. Without local links, or if the system
//! cannot wait on several futexes, the lane thread carries the links and wakes the consumer.

use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use millstream_dataplane::linger::Linger;
use millstream_dataplane::transport::{Doorbell, Doze, Nap};
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::carrier::Carrier;
use crate::intake::{Intake, Next};
use crate::reader_core::ReaderCore;

/// Links to workers on this host.
type Carriers = SmallVec<[Arc<Carrier>; 4]>;

/// Maximum number of rounds over the links in one call. After these rounds the lane thread carries the
/// remaining messages.
const ROUNDS_MAX: usize = 4;

/// The links of a reader that its consumer's thread carries, and the waits of that thread.
#[derive(Debug)]
pub(crate) struct Waiter {
    intake: Arc<Intake>,
    carriers: Mutex<Carriers>,
}

impl Waiter {
    pub(crate) fn new(intake: Arc<Intake>) -> Self {
        Self {
            intake,
            carriers: Mutex::default(),
        }
    }

    pub(crate) fn intake(&self) -> &Arc<Intake> {
        &self.intake
    }

    /// Adds a link that is up, if it is local and the system supports sleeping on it.
    pub(crate) fn add_carrier(&self, carrier: &Arc<Carrier>) {
        if carrier.is_local() && Nap::is_supported() {
            self.carriers.lock().push(carrier.clone());
        }
    }

    /// Removes a link.
    pub(crate) fn remove_carrier(&self, carrier: &Arc<Carrier>) {
        self.carriers.lock().retain(|other| !Arc::ptr_eq(other, carrier));
    }

    /// Books the elements that the consumer handed over, and sends the resulting grants over local links.
    pub(crate) fn settle(&self) {
        let handed = self.intake.handed();
        let ((), is_to_carry) = self.intake.as_consumer(|core| core.settle_and_distribute(handed));
        if is_to_carry {
            self.carry();
        }
    }

    /// Returns the next elements, or `Ok(None)` at the end. Blocks the thread for at most `timeout`, then
    /// returns `Pending`.
    pub(crate) fn wait_next(&self, timeout: Duration, linger: &mut Linger) -> Next {
        if let next @ Poll::Ready(_) = self.take(false) {
            return next;
        }
        let since = Instant::now();
        let mut next = self.look(since, linger.look_for());
        if next.is_pending() {
            next = self.sleep_until_next(since + timeout);
        }
        linger.note(since.elapsed());
        next
    }

    /// Carries local links until elements arrive or `limit` has passed since `since`. Returns `Pending` if no
    /// elements arrived.
    fn look(&self, since: Instant, limit: Duration) -> Next {
        while since.elapsed() < limit && self.carry() {
            if let next @ Poll::Ready(_) = self.take(false) {
                return next;
            }
            // If threads outnumber cores, the worker's thread may need this core.
            std::thread::yield_now();
        }
        Poll::Pending
    }

    fn sleep_until_next(&self, until: Instant) -> Next {
        loop {
            if let next @ Poll::Ready(_) = self.take(false) {
                return next;
            }
            let is_over = if self.carry() {
                if let next @ Poll::Ready(_) = self.take(true) {
                    return next;
                }
                let is_over = self.doze(until);
                // Whatever the reason for waking up, this thread must carry the links: while it sleeps on a
                // link, no other thread is notified of the link's frames.
                self.carry();
                is_over
            } else {
                self.intake.sleep(until)
            };
            if is_over {
                return self.take(false);
            }
        }
    }

    /// Returns the available elements. If no elements are available and `is_to_nap` is true, prepares the
    /// thread to sleep.
    fn take(&self, is_to_nap: bool) -> Next {
        let (next, is_to_carry) = self.intake.as_consumer(|core| {
            let next = self.intake.next(core);
            if next.is_pending() && is_to_nap {
                self.intake.nap().begin();
            }
            next
        });
        if next.is_ready() && is_to_carry {
            self.carry();
        }
        next
    }

    /// Carries frames in both directions over all local links. Returns false if no local links exist.
    fn carry(&self) -> bool {
        let carriers = self.carriers.lock().clone();
        for _ in 0..ROUNDS_MAX {
            for carrier in &carriers {
                carrier.step(&self.intake);
            }
            if !self.intake.look(ReaderCore::is_to_carry) {
                return !carriers.is_empty();
            }
        }
        for carrier in &carriers {
            carrier.wake_lane();
        }
        !carriers.is_empty()
    }

    /// Sleeps until a local worker sends a frame or the lane thread has elements. Returns true once `until`
    /// has passed.
    fn doze(&self, until: Instant) -> bool {
        let mut doorbells = SmallVec::<[Doorbell; 4]>::new();
        for carrier in &self.carriers.lock().clone() {
            match carrier.doze() {
                Doze::At(doorbell) => doorbells.push(doorbell),
                // The lane thread is notified of this link's frames.
                Doze::Nowhere => {}
                Doze::Awake => {
                    self.intake.nap().give_up();
                    return false;
                }
            }
        }
        self.intake
            .nap()
            .sleep(&doorbells, until.saturating_duration_since(Instant::now()));
        Instant::now() >= until
    }
}
