//! The limit on the memory that all arenas of a worker hold together.
//!
//! Invariant: pages that hold memory, in use or idle, never exceed the limit. Together with the heap pool's
//! memory, they never exceed the pool's budget. Idle ones go back to the system before anybody is refused.
//! Refuses to know what is allocated.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use millstream_element::Pool;
use parking_lot::Mutex;

/// An arena, as far as its idle memory goes.
pub(super) trait GiveBack: Send + Sync {
    /// Gives idle pages back to the system, and what was charged for them to the budget.
    fn give_back(&self);
}

/// The memory of a worker's arenas; clones share it.
#[derive(Clone)]
pub struct ArenaBudget {
    inner: Arc<Inner>,
}

struct Inner {
    limit_bytes: usize,
    /// Charged now.
    held_bytes: AtomicUsize,
    /// The pool whose budget this is a part of.
    pool: Option<Pool>,
    arenas: Mutex<Vec<Weak<dyn GiveBack>>>,
}

impl ArenaBudget {
    /// Arenas hold `limit_bytes` at most. Where `pool` is given, what they hold is taken from its budget, so
    /// that both together keep to it.
    #[must_use]
    pub fn new(limit_bytes: usize, pool: Option<Pool>) -> Self {
        let pool_bytes = pool.as_ref().map(|pool| pool.stats().budget_bytes);
        let limit_bytes = limit_bytes.min(pool_bytes.unwrap_or(usize::MAX));
        Self {
            inner: Arc::new(Inner {
                limit_bytes,
                held_bytes: AtomicUsize::new(0),
                pool,
                arenas: Mutex::default(),
            }),
        }
    }

    /// The most that arenas may hold, in bytes.
    #[must_use]
    pub fn limit_bytes(&self) -> usize {
        self.inner.limit_bytes
    }

    /// Returns the bytes of pages in use and of idle ones.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.inner.held_bytes.load(Ordering::Relaxed)
    }

    /// Gives all idle memory of all arenas back to the system, so that others can have it. Takes
    /// about 0.2 ms for each MiB.
    pub fn give_back(&self) {
        // Not under the lock: the last hold on an arena may go here, which then leaves the list.
        let arenas: Vec<_> = self.inner.arenas.lock().clone();
        for arena in arenas.iter().filter_map(Weak::upgrade) {
            arena.give_back();
        }
    }

    /// Enters an arena in the list of those that are asked for idle memory.
    pub(super) fn enter(&self, arena: Weak<dyn GiveBack>) {
        let mut arenas = self.inner.arenas.lock();
        arenas.retain(|arena| arena.strong_count() > 0);
        arenas.push(arena);
    }

    /// Books memory that is about to be taken from the system; false when it would be too much.
    pub(super) fn charge(&self, size_bytes: usize) -> bool {
        if self.try_charge(size_bytes) {
            return true;
        }
        self.give_back();
        self.try_charge(size_bytes)
    }

    /// Books that it was given back.
    pub(super) fn discharge(&self, size_bytes: usize) {
        let before = self.inner.held_bytes.fetch_sub(size_bytes, Ordering::Relaxed);
        debug_assert!(before >= size_bytes, "{size_bytes} bytes given back of {before}");
        if let Some(pool) = &self.inner.pool {
            pool.release(size_bytes);
        }
    }

    /// Relaxed: the count only bounds; memory is handed over by the arenas' locks.
    fn try_charge(&self, size_bytes: usize) -> bool {
        let grown = |held: usize| {
            let held = held.checked_add(size_bytes)?;
            (held <= self.inner.limit_bytes).then_some(held)
        };
        let held = &self.inner.held_bytes;
        let is_charged = held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown)
            .is_ok();
        let has_room = |pool: &Pool| pool.reserve(size_bytes);
        if is_charged && !self.inner.pool.as_ref().is_none_or(has_room) {
            held.fetch_sub(size_bytes, Ordering::Relaxed);
            return false;
        }
        is_charged
    }
}

impl fmt::Debug for ArenaBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ArenaBudget({} of {} bytes)",
            self.held_bytes(),
            self.inner.limit_bytes
        )
    }
}
