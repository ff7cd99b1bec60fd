//! How a consumer's thread waits for elements: it carries the links to workers of its own host itself, and sleeps at all of
//! them.
//!
//! An element then wakes one thread, the one that wants it. Where there are no such links, or the system cannot wait at
//! several places, the lane carries and wakes it.

use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use millstream_dataplane::linger::Linger;
use millstream_dataplane::transport::{Doorbell, Doze, Nap};
use smallvec::SmallVec;

use crate::carrier::Carrier;
use crate::error::ReadError;
use crate::intake::{Handing, Intake};
use crate::state::State;

/// Links to workers of this host.
pub(crate) type Carriers = SmallVec<[Arc<Carrier>; 4]>;

/// Rounds over the links in one go; what they still have to say then, the lane carries.
const ROUNDS_MAX: usize = 4;

impl Intake {
    /// Notes a link that stands.
    pub(crate) fn add_carrier(&self, carrier: &Arc<Carrier>) {
        if carrier.is_local() && Nap::is_supported() {
            self.carriers.lock().push(carrier.clone());
        }
    }

    /// Forgets it.
    pub(crate) fn remove_carrier(&self, carrier: &Arc<Carrier>) {
        self.carriers.lock().retain(|other| !Arc::ptr_eq(other, carrier));
    }

    /// Does what the consumer's thread does with the state, after which that carries what local workers are told.
    pub(crate) fn as_consumer<R>(&self, act: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.state.lock();
        state.is_consumer = true;
        let result = act(&mut state);
        state.is_consumer = false;
        result
    }

    /// Books what the consumer handed over.
    pub(crate) fn settle(&self) {
        let is_to_carry = self.as_consumer(|state| {
            if state.settle(&self.handed) {
                state.distribute();
            }
            state.is_to_carry()
        });
        if is_to_carry {
            self.carry();
        }
    }

    /// The next elements, for a thread, which waits `timeout` at most; `Ok(None)` at the end. `Pending` when nothing came.
    pub(crate) fn wait_next(
        &self,
        timeout: Duration,
        linger: &mut Linger,
    ) -> Poll<Result<Option<Handing>, ReadError>> {
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
    fn look(&self, since: Instant, limit: Duration) -> Poll<Result<Option<Handing>, ReadError>> {
        while since.elapsed() < limit && self.carry() {
            if let next @ Poll::Ready(_) = self.take(false) {
                return next;
            }
            // Where there are more threads than cores, what is waited for may need this one.
            std::thread::yield_now();
        }
        Poll::Pending
    }

    fn sleep_until_next(&self, until: Instant) -> Poll<Result<Option<Handing>, ReadError>> {
        loop {
            if let next @ Poll::Ready(_) = self.take(false) {
                return next;
            }
            let is_over = if self.carry() {
                if let next @ Poll::Ready(_) = self.take(true) {
                    return next;
                }
                let is_over = self.doze(until);
                // Whatever woke this thread: while it was to sleep at a link, nobody else heard of what comes there.
                self.carry();
                is_over
            } else {
                self.sleep(until)
            };
            if is_over {
                return self.take(false);
            }
        }
    }

    /// What is here. Where nothing is, begins the nap if that is said.
    fn take(&self, is_to_nap: bool) -> Poll<Result<Option<Handing>, ReadError>> {
        let (next, is_to_carry) = self.as_consumer(|state| {
            let next = state.next(&self.handed);
            if next.is_pending() && is_to_nap {
                self.nap.begin();
            }
            (next, state.is_to_carry())
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
                carrier.step(self);
            }
            if !self.state.lock().is_to_carry() {
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
                    self.nap.give_up();
                    return false;
                }
            }
        }
        self.nap
            .sleep(&doorbells, until.saturating_duration_since(Instant::now()));
        Instant::now() >= until
    }

    /// Sleeps until the lane has something. True once it is too late.
    fn sleep(&self, until: Instant) -> bool {
        let mut state = self.state.lock();
        !state.has_something() && self.arrived.wait_until(&mut state, until).timed_out()
    }
}
