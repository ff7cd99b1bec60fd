//! The limit on the memory that all arenas of a worker hold together.
//!
//! Invariant: pages that hold memory, in use or idle, never exceed the limit. The arenas and the heap pool
//! together never exceed the pool's budget. Before an allocation is refused, idle pages return to the system.
//! The module does not know what is allocated.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use millstream_element::Pool;
use parking_lot::Mutex;

/// The part of an arena that returns idle memory.
pub(super) trait GiveBack: Send + Sync {
    /// Returns idle pages to the system, and discharges their bytes from the budget.
    fn give_back(&self);
}

/// The memory budget of a worker's arenas. Clones share the budget.
#[derive(Clone)]
pub struct ArenaBudget {
    inner: Arc<Inner>,
}

struct Inner {
    limit_bytes: usize,
    /// The number of bytes charged now.
    held_bytes: AtomicUsize,
    /// The pool whose budget includes the arenas, if any.
    pool: Option<Pool>,
    arenas: Mutex<Vec<Weak<dyn GiveBack>>>,
}

impl ArenaBudget {
    /// Makes a budget of at most `limit_bytes` for all arenas. If `pool` is given, the arenas' memory also
    /// counts against the pool's budget, so that the sum stays within it.
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

    /// Returns the maximum number of bytes that the arenas may hold.
    #[must_use]
    pub fn limit_bytes(&self) -> usize {
        self.inner.limit_bytes
    }

    /// Returns the number of bytes that the arenas hold, in pages in use and idle pages.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.inner.held_bytes.load(Ordering::Relaxed)
    }

    /// Returns the idle memory of all arenas to the system, so that other users can have it. The call takes
    /// about 0.2 ms for each MiB.
    pub fn give_back(&self) {
        // The lock is not held here, because the last reference to an arena may be dropped in the loop.
        let arenas: Vec<_> = self.inner.arenas.lock().clone();
        for arena in arenas.iter().filter_map(Weak::upgrade) {
            arena.give_back();
        }
    }

    /// Registers an arena, which is asked to return idle memory when the budget is short.
    pub(super) fn enter(&self, arena: Weak<dyn GiveBack>) {
        let mut arenas = self.inner.arenas.lock();
        arenas.retain(|arena| arena.strong_count() > 0);
        arenas.push(arena);
    }

    /// Charges memory that is about to be taken from the system. Returns false if the charge would exceed the
    /// limit.
    pub(super) fn charge(&self, size_bytes: usize) -> bool {
        if self.try_charge(size_bytes) {
            return true;
        }
        self.give_back();
        self.try_charge(size_bytes)
    }

    /// Discharges memory that was returned to the system.
    pub(super) fn discharge(&self, size_bytes: usize) {
        let before = self.inner.held_bytes.fetch_sub(size_bytes, Ordering::Relaxed);
        debug_assert!(
            before >= size_bytes,
            "discharged {size_bytes} bytes, but only {before} were charged"
        );
        if let Some(pool) = &self.inner.pool {
            pool.release(size_bytes);
        }
    }

    /// Charges memory without asking arenas for idle pages. The atomics are relaxed, because the count is
    /// only a limit; the arenas' locks order the access to memory.
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
