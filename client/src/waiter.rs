//! How a consumer's thread waits for elements: it carries the links to workers of its own host itself, and
//! sleeps at all of them.
//!
//! An element then wakes one thread, the one that wants it. Where there are no such links, or the system
//! cannot wait at several places, the lane carries and wakes it.

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

/// Links to workers of this host.
type Carriers = SmallVec<[Arc<Carrier>; 4]>;

/// Rounds over the links in one go; what they still have to say then, the lane carries.
const ROUNDS_MAX: usize = 4;

/// The links of a reader that its consumer's thread carries, and that thread's waits.
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

    /// Notes a link that is up.
    pub(crate) fn add_carrier(&self, carrier: &Arc<Carrier>) {
        if carrier.is_local() && Nap::is_supported() {
            self.carriers.lock().push(carrier.clone());
        }
    }

    /// Forgets a link.
    pub(crate) fn remove_carrier(&self, carrier: &Arc<Carrier>) {
        self.carriers.lock().retain(|other| !Arc::ptr_eq(other, carrier));
    }

    /// Notes what the consumer handed over.
    pub(crate) fn settle(&self) {
        let handed = self.intake.handed();
        let ((), is_to_carry) = self.intake.as_consumer(|core| core.settle_and_distribute(handed));
        if is_to_carry {
            self.carry();
        }
    }

    /// The next elements, for a thread, which waits `timeout` at most; `Ok(None)` at the end. `Pending` when
    /// nothing came.
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

    /// Carries local links for so long that something comes. `Pending` if nothing has yet.
    fn look(&self, since: Instant, limit: Duration) -> Next {
        while since.elapsed() < limit && self.carry() {
            if let next @ Poll::Ready(_) = self.take(false) {
                return next;
            }
            // Where there are more threads than cores, what is waited for may need this one.
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
                // Whatever woke this thread: while it was to sleep at a link, nobody else heard of what comes
                // there.
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

    /// Returns what is here. Where nothing is, begins the nap if that is asked for.
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

    /// Carries what local workers sent, and what they are told. False where there are none.
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

    /// Sleeps until a local worker sends something or the lane has something. True once it is too late.
    fn doze(&self, until: Instant) -> bool {
        let mut doorbells = SmallVec::<[Doorbell; 4]>::new();
        for carrier in &self.carriers.lock().clone() {
            match carrier.doze() {
                Doze::At(doorbell) => doorbells.push(doorbell),
                // Of these the lane hears.
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
