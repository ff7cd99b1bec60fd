//! Notification of a session that its tasks have something ready: wakes it, or steps it on the calling
//! thread.
//!
//! Owns the choice between the two. Refuses to know what a step does.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, Weak};
use std::time::{Duration, Instant};

use futures_util::task::AtomicWaker;

use super::clock;

/// The bytes of a commit that is worth a step of its own, because it takes longer to fill than to hand on.
/// More of smaller elements come while the session wakes, and leave together.
const STEP_BYTES: u64 = 32 << 10;

/// The rest that a session has between two calls: a few times the cost of waking a thread. Small elements
/// that come faster leave together; a producer that is back sooner hears in time what the client says.
const REST: Duration = Duration::from_micros(100);

/// When a thread that steps a session does so again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Back {
    /// Within moments: nobody need be woken by what the client says meanwhile.
    Soon,
    /// The call goes out with the next element, which may take long.
    WithNext,
}

/// A session that a thread can step which is not its own.
pub(crate) trait Seat: Send + Sync {
    /// Does what the session can do now, without waiting. False when it is being stepped already, or cannot
    /// be stepped from here.
    fn step_here(&self, back: Back) -> bool;
}

/// Calls a session: something of its tasks is ready.
pub(crate) struct Bell {
    waker: AtomicWaker,
    /// Set where a step needs no network.
    seat: OnceLock<Weak<dyn Seat>>,
    start: Instant,
    /// When the session was last stepped, in nanoseconds since the start.
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

    /// Wakes the session. Holding locks of its tasks is no matter.
    pub(crate) fn ring(&self) {
        self.waker.wake();
    }

    /// Steps the session in this thread if that is likely to save a wake-up for `bytes` just committed; else
    /// wakes it. The caller holds no lock of its tasks.
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

    /// The producer looks whether there is room: takes the credits that have come. The caller holds no lock
    /// of its tasks.
    pub(crate) fn look(&self) {
        self.step_here(Back::Soon);
    }

    /// The producer is going to sleep until there is room, which credits bring: takes those that have come,
    /// and has further ones wake the session. The caller holds no lock of its tasks.
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
        // Once, when the session begins.
        let _ = self.seat.set(seat);
    }

    /// The session's own thread: before it looks at anything, so that a ring in between is not missed.
    pub(super) fn register(&self, waker: &std::task::Waker) {
        self.waker.register(waker);
    }

    /// The session was stepped, by whomever.
    pub(super) fn note_step(&self, now: Instant) {
        self.stepped_ns.store(self.since_start(now), Ordering::Relaxed);
    }

    fn has_rested(&self, now: Instant) -> bool {
        let stepped_ns = self.stepped_ns.load(Ordering::Relaxed);
        u128::from(self.since_start(now).saturating_sub(stepped_ns)) >= REST.as_nanos()
    }

    fn since_start(&self, now: Instant) -> u64 {
        // 500 years fit.
        now.saturating_duration_since(self.start).as_nanos() as u64
    }
}

impl fmt::Debug for Bell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bell").finish_non_exhaustive()
    }
}
