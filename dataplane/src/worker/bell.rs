//! Notifies a session that one of its tasks has elements ready. The notification wakes the session, or steps
//! the session on the calling thread.
//!
//! The module owns the choice between waking and stepping. The work of a step is unknown to it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, Weak};
use std::time::{Duration, Instant};

use futures_util::task::AtomicWaker;

use super::clock;

/// The number of committed bytes from which on a separate step pays off, because writing the bytes takes
/// longer than sending them. Smaller elements gather while the session wakes, and are sent together.
const STEP_BYTES: u64 = 32 << 10;

/// The minimum time between two steps by producers, a few times the cost of waking a thread. Small elements
/// that arrive faster are sent together. A producer that returns sooner receives the client's messages in
/// time.
const REST: Duration = Duration::from_micros(100);

/// The time at which the calling thread will step the session again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Back {
    /// The thread steps again within moments, so that messages of the client need not wake a thread
    /// meanwhile.
    Soon,
    /// The thread steps again with its next element, which may take long.
    WithNext,
}

/// A session that a thread other than its own can step.
pub(crate) trait Seat: Send + Sync {
    /// Does the work that the session can do now without waiting. Returns false if another thread steps the
    /// session, or if the session cannot be stepped from here.
    fn step_here(&self, back: Back) -> bool;
}

/// The notification of a session that one of its tasks has elements ready.
pub(crate) struct Bell {
    waker: AtomicWaker,
    /// The session to step. Set only if a step needs no network.
    seat: OnceLock<Weak<dyn Seat>>,
    start: Instant,
    /// The time of the latest step, in nanoseconds since the start.
    stepped_ns: AtomicU64,
}

impl Bell {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            waker: AtomicWaker::new(),
            seat: OnceLock::new(),
            start: now,
            stepped_ns: AtomicU64::new(0),
        }
    }

    /// Wakes the session. The caller may hold locks of the session's tasks.
    pub(crate) fn ring(&self) {
        self.waker.wake();
    }

    /// Steps the session on this thread if that probably saves a wake-up for the `bytes` just committed;
    /// otherwise wakes the session. The caller must hold no lock of the session's tasks.
    pub(crate) fn ring_for(&self, bytes: u64) {
        let back = if self.has_rested(clock::now()) {
            Back::WithNext
        } else {
            Back::Soon
        };
        let is_worth_it = bytes >= STEP_BYTES || back == Back::WithNext;
        if !(is_worth_it && self.step_here(back)) {
            self.ring();
        }
    }

    /// Steps the session for a producer that waits for room, so that arrived credits take effect. The caller
    /// must hold no lock of the session's tasks.
    pub(crate) fn look(&self) {
        self.step_here(Back::Soon);
    }

    /// Steps the session for a producer that is about to sleep until credits make room. After this call, new
    /// credits wake the session. The caller must hold no lock of the session's tasks.
    pub(crate) fn note_producer_sleeps(&self) {
        if !self.step_here(Back::WithNext) {
            self.ring();
        }
    }

    fn step_here(&self, back: Back) -> bool {
        let seat = self.seat.get().and_then(Weak::upgrade);
        seat.is_some_and(|seat| seat.step_here(back))
    }

    /// Lets producers step this session.
    pub(super) fn seat(&self, seat: Weak<dyn Seat>) {
        // The session calls this method once, so the cell is empty.
        let _ = self.seat.set(seat);
    }

    /// Registers the waker of the session's own task. The session registers before it looks for work, so that
    /// no ring is missed.
    pub(super) fn register(&self, waker: &std::task::Waker) {
        self.waker.register(waker);
    }

    /// Records the time at which any thread stepped the session.
    pub(super) fn note_step(&self, now: Instant) {
        self.stepped_ns.store(self.since_start(now), Ordering::Relaxed);
    }

    fn has_rested(&self, now: Instant) -> bool {
        let stepped_ns = self.stepped_ns.load(Ordering::Relaxed);
        u128::from(self.since_start(now).saturating_sub(stepped_ns)) >= REST.as_nanos()
    }

    fn since_start(&self, now: Instant) -> u64 {
        // The nanoseconds of 500 years fit 64 bits.
        now.saturating_duration_since(self.start).as_nanos() as u64
    }
}

impl fmt::Debug for Bell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bell").finish_non_exhaustive()
    }
}
