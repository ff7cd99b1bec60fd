//! The counts of one operation. The executor decides which threads share the counts.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::sampler::{Sample, Sampler};

/// The counts of one operation: sums since the executor was opened. No other memory access depends on their
/// order, so every access is relaxed.
#[derive(Debug)]
pub(crate) struct Stage {
    /// Whether several trees share the stage, as those of a function's body do.
    is_shared: bool,
    /// The number of elements that the operation yielded.
    elements: AtomicU64,
    /// The time that the operation's calls took, without the calls below.
    own_ns: AtomicU64,
    /// The time that the operation's calls took, with the calls below.
    whole_ns: AtomicU64,
    /// The time that threads of the pool spent on the operation.
    pool_ns: AtomicU64,
    /// Whether the operation has threads of its own. The calls of such an operation wait, while other threads
    /// do the work.
    is_ahead: AtomicBool,
    /// The maximum number of threads that the operation uses.
    threads: AtomicU32,
    /// The sum of the numbers of ready elements at the samples, and the number of samples.
    ready: AtomicU64,
    ready_samples: AtomicU64,
    /// The maximum number of elements that may be ready.
    ready_max: AtomicU64,
    /// The sampler of the tree that was dropped last, with which the next tree continues.
    sampler: Mutex<Sampler>,
}

/// The counts at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) elements: u64,
    pub(crate) own_ns: u64,
    pub(crate) whole_ns: u64,
    pub(crate) pool_ns: u64,
    pub(crate) is_ahead: bool,
    pub(crate) threads: u32,
    pub(crate) ready: u64,
    pub(crate) ready_samples: u64,
    pub(crate) ready_max: u64,
}

impl Stage {
    /// Returns the stage of an operation. `is_shared` states that several trees of a body may count in it.
    pub(crate) fn new(is_shared: bool) -> Stage {
        Stage {
            is_shared,
            elements: AtomicU64::new(0),
            own_ns: AtomicU64::new(0),
            whole_ns: AtomicU64::new(0),
            pool_ns: AtomicU64::new(0),
            is_ahead: AtomicBool::new(false),
            threads: AtomicU32::new(1),
            ready: AtomicU64::new(0),
            ready_samples: AtomicU64::new(0),
            ready_max: AtomicU64::new(0),
            sampler: Mutex::default(),
        }
    }

    /// Returns the sampler for a new tree. A tree of a short split would otherwise sample most of its calls,
    /// because a new sampler samples each of the first calls.
    pub(crate) fn take_sampler(&self) -> Sampler {
        std::mem::take(&mut *self.sampler.lock())
    }

    /// Keeps the sampler of a dropped tree.
    pub(crate) fn return_sampler(&self, sampler: Sampler) {
        *self.sampler.lock() = sampler;
    }

    /// Counts elements.
    #[inline]
    pub(crate) fn count(&self, elements: u64) {
        self.add(&self.elements, elements);
    }

    /// Adds the result of a sample.
    pub(crate) fn note(&self, sample: Sample) {
        self.add(&self.own_ns, sample.own_ns.saturating_mul(sample.calls));
        self.add(&self.whole_ns, sample.whole_ns.saturating_mul(sample.calls));
    }

    /// Adds time that a thread of the pool worked.
    pub(crate) fn note_pool(&self, nanoseconds: u64) {
        self.pool_ns.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Sets the number of threads that work for the operation while its calls wait.
    pub(crate) fn set_threads(&self, threads: usize) {
        self.is_ahead.store(true, Ordering::Relaxed);
        self.threads
            .store(u32::try_from(threads).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Records the number of elements that are ready, and the maximum number.
    pub(crate) fn note_ready(&self, ready: usize, of: usize) {
        self.add(&self.ready, ready as u64);
        self.add(&self.ready_samples, 1);
        self.ready_max.store(of as u64, Ordering::Relaxed);
    }

    /// Returns the current counts. The counts may be inconsistent with each other while threads work.
    pub(crate) fn counts(&self) -> Counts {
        let now = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            elements: now(&self.elements),
            own_ns: now(&self.own_ns),
            whole_ns: now(&self.whole_ns),
            pool_ns: now(&self.pool_ns),
            is_ahead: self.is_ahead.load(Ordering::Relaxed),
            threads: self.threads.load(Ordering::Relaxed),
            ready: now(&self.ready),
            ready_samples: now(&self.ready_samples),
            ready_max: now(&self.ready_max),
        }
    }

    /// Adds to a sum. The stage of a single tree has one writer at a time, and its writes move between
    /// threads with the tree. A single writer needs no locked instruction, which would cost as much as a
    /// cheap stage.
    #[inline]
    fn add(&self, sum: &AtomicU64, more: u64) {
        if self.is_shared {
            sum.fetch_add(more, Ordering::Relaxed);
        } else {
            let more = sum.load(Ordering::Relaxed).wrapping_add(more);
            sum.store(more, Ordering::Relaxed);
        }
    }
}
