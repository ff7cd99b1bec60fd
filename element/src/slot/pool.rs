//! A bounded allocator that reuses memory, with size classes, lock-free free lists, and a byte budget.
//!
//! Invariant: live plus cached memory never exceeds the budget. Memory returns to the system only to make
//! room for another size class, or when the pool is dropped. Reused memory is not zeroed. This file does not
//! know the contents of slots.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crossbeam_queue::ArrayQueue;

use super::alloc::{AllocError, MAX_SLOT_BYTES, SlotAlloc};
use super::region::{Memory, Reclaim};
use super::shared::SlotMut;

/// A bounded pool of slots. Clones share the pool, and slots may outlive every clone.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

/// The memory of a pool, in bytes of whole size classes. A slot counts as at most a quarter more than its
/// requested size, and as at least 4 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolStats {
    /// The limit on live plus cached memory.
    pub budget_bytes: usize,
    /// The bytes held by live slots.
    pub in_use_bytes: usize,
    /// The highest `in_use_bytes` so far.
    pub peak_bytes: usize,
    /// The bytes allocated from the system, live or cached, plus the bytes reserved for other memory.
    pub held_bytes: usize,
}

struct Shared {
    budget_bytes: usize,
    in_use_bytes: AtomicUsize,
    peak_bytes: AtomicUsize,
    held_bytes: AtomicUsize,
    classes: Box<[OnceLock<ArrayQueue<Memory>>]>,
}

impl Pool {
    /// Makes a pool that never holds more than `budget_bytes`. Allocates no memory yet.
    #[must_use]
    pub fn new(budget_bytes: usize) -> Pool {
        let shared = Shared {
            budget_bytes,
            in_use_bytes: AtomicUsize::new(0),
            peak_bytes: AtomicUsize::new(0),
            held_bytes: AtomicUsize::new(0),
            classes: (0..CLASSES).map(|_| OnceLock::new()).collect(),
        };
        Pool {
            shared: Arc::new(shared),
        }
    }

    /// Returns the memory that the pool holds now. The counters are read one after another, so they may be
    /// inconsistent for a moment.
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        PoolStats {
            budget_bytes: self.shared.budget_bytes,
            in_use_bytes: self.shared.in_use_bytes.load(Ordering::Relaxed),
            peak_bytes: self.shared.peak_bytes.load(Ordering::Relaxed),
            held_bytes: self.shared.held_bytes.load(Ordering::Relaxed),
        }
    }

    /// Reserves part of the budget for memory from outside the pool, such as a mapping. Frees cached memory
    /// if needed. Returns false if live slots leave too little. The caller must return the reservation with
    /// [`Pool::release`].
    #[must_use]
    pub fn reserve(&self, size_bytes: usize) -> bool {
        self.shared.make_room(size_bytes)
    }

    /// Returns a reservation of [`Pool::reserve`] to the budget, at once or in parts, but never more than was
    /// reserved.
    pub fn release(&self, size_bytes: usize) {
        let before = self.shared.held_bytes.fetch_sub(size_bytes, Ordering::Relaxed);
        debug_assert!(before >= size_bytes, "{size_bytes} bytes released of {before}");
    }
}

impl SlotAlloc for Pool {
    /// Fails with [`AllocError::TooLarge`] if the slot would not fit into an empty pool, so that waiting
    /// cannot help. Fails with [`AllocError::Exhausted`] if the slot does not fit now.
    fn alloc(&self, size_bytes: usize) -> Result<SlotMut, AllocError> {
        let shared = &self.shared;
        let limit_bytes = shared.budget_bytes.min(MAX_SLOT_BYTES);
        let too_large = AllocError::TooLarge {
            size_bytes,
            limit_bytes,
        };
        if size_bytes > limit_bytes {
            return Err(too_large);
        }
        let class = class_of(size_bytes);
        let charge_bytes = class_bytes(class);
        if charge_bytes > shared.budget_bytes {
            return Err(too_large);
        }
        let cached = shared.classes[class].get().and_then(ArrayQueue::pop);
        let memory = match cached {
            Some(memory) => memory,
            None => shared.grow(size_bytes, charge_bytes)?,
        };
        let in_use_bytes = shared.in_use_bytes.fetch_add(charge_bytes, Ordering::Relaxed) + charge_bytes;
        if in_use_bytes > shared.peak_bytes.load(Ordering::Relaxed) {
            shared.peak_bytes.fetch_max(in_use_bytes, Ordering::Relaxed);
        }
        Ok(SlotMut::new(
            memory,
            size_bytes,
            Some(Arc::clone(shared) as Arc<dyn Reclaim>),
        ))
    }
}

impl Shared {
    /// Allocates fresh memory within the budget. Frees cached memory of other classes if needed.
    fn grow(&self, size_bytes: usize, charge_bytes: usize) -> Result<Memory, AllocError> {
        if !self.make_room(charge_bytes) {
            let in_use_bytes = self.in_use_bytes.load(Ordering::Relaxed);
            let budget_bytes = self.budget_bytes;
            return Err(AllocError::Exhausted {
                size_bytes,
                in_use_bytes,
                budget_bytes,
            });
        }
        Memory::heap(charge_bytes).ok_or_else(|| {
            self.held_bytes.fetch_sub(charge_bytes, Ordering::Relaxed);
            AllocError::OutOfMemory { size_bytes }
        })
    }

    /// Reserves bytes of the budget. Frees cached memory if needed. Returns false if the budget is exhausted.
    fn make_room(&self, charge_bytes: usize) -> bool {
        while !self.reserve(charge_bytes) {
            if !self.evict_one() {
                return false;
            }
        }
        true
    }

    /// Reserves bytes if the budget allows. The ordering is relaxed because the counters only limit each
    /// other; the queues synchronize the memory itself.
    fn reserve(&self, charge_bytes: usize) -> bool {
        let grown = |held: usize| {
            held.checked_add(charge_bytes)
                .filter(|held| *held <= self.budget_bytes)
        };
        self.held_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown)
            .is_ok()
    }

    /// Frees one cached buffer of the largest class that has any. Returns false if no buffer is cached.
    fn evict_one(&self) -> bool {
        let cached = self
            .classes
            .iter()
            .rev()
            .filter_map(OnceLock::get)
            .find_map(ArrayQueue::pop);
        cached.map(|memory| self.discard(memory)).is_some()
    }

    fn discard(&self, memory: Memory) {
        let size_bytes = memory.size_bytes();
        drop(memory);
        self.held_bytes.fetch_sub(size_bytes, Ordering::Relaxed);
    }
}

impl Reclaim for Shared {
    fn reclaim(&self, memory: Memory) {
        let size_bytes = memory.size_bytes();
        // Subtracted before the memory can be allocated again, so that the memory is never counted twice.
        self.in_use_bytes.fetch_sub(size_bytes, Ordering::Relaxed);
        let capacity = (self.budget_bytes / size_bytes).clamp(1, CACHED_PER_CLASS_MAX);
        let queue = self.classes[class_of(size_bytes)].get_or_init(|| ArrayQueue::new(capacity));
        if let Err(memory) = queue.push(memory) {
            self.discard(memory);
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PoolStats {
            budget_bytes,
            in_use_bytes,
            ..
        } = self.stats();
        write!(f, "Pool({in_use_bytes} of {budget_bytes} bytes)")
    }
}

/// Returns the class of the smallest buffer with at least `size_bytes`, which must be at most
/// [`MAX_SLOT_BYTES`].
fn class_of(size_bytes: usize) -> usize {
    if size_bytes <= SMALLEST_CLASS_BYTES {
        return 0;
    }
    // `size_bytes - 1` is in [2^octave, 2^(octave+1)), which is divided into four steps.
    let last = size_bytes - 1;
    let octave = last.ilog2();
    let step = (last >> (octave - STEP_BITS)) & (STEPS - 1);
    (octave - SMALLEST_CLASS_BITS) as usize * STEPS + step + 1
}

/// Returns the size in bytes of the buffers of a class; the inverse of [`class_of`].
fn class_bytes(class: usize) -> usize {
    let Some(index) = class.checked_sub(1) else {
        return SMALLEST_CLASS_BYTES;
    };
    let octave_bytes = SMALLEST_CLASS_BYTES << (index / STEPS);
    octave_bytes + (index % STEPS + 1) * (octave_bytes / STEPS)
}

/// Size of the smallest buffer in bytes, one page.
const SMALLEST_CLASS_BYTES: usize = 1 << SMALLEST_CLASS_BITS;
const SMALLEST_CLASS_BITS: u32 = 12;
/// The number of sizes for each power of two. With four, a payload of 2^n bytes and its header do not cost
/// 2^(n+1) bytes.
const STEPS: usize = 1 << STEP_BITS;
const STEP_BITS: u32 = 2;
/// The number of classes: four for each of the 24 octaves from 4 KiB to 64 GiB, plus the smallest class.
const CLASSES: usize = (MAX_SLOT_BYTES.ilog2() - SMALLEST_CLASS_BITS) as usize * STEPS + 1;
/// Maximum number of buffers of one class that are kept for reuse. Limits each free list in use to about 128
/// KiB.
const CACHED_PER_CLASS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn classes_waste_at_most_a_quarter() {
        for class in 0..CLASSES {
            let bytes = class_bytes(class);
            assert_eq!(class_of(bytes), class);
            if class + 1 < CLASSES {
                assert_eq!(class_of(bytes + 1), class + 1);
                assert!(class_bytes(class + 1) <= bytes + bytes / 4);
            }
        }
        assert_eq!(class_bytes(CLASSES - 1), MAX_SLOT_BYTES);
        assert_eq!(class_bytes(class_of((1 << 20) + 64)), (1 << 20) + (1 << 18));
    }

    #[test]
    fn freed_memory_is_reused_without_zeroing() {
        let pool = Pool::new(1 << 20);
        let mut slot = pool.alloc(100_000).unwrap();
        slot[7] = 9;
        let address = slot.as_ptr();
        drop(slot.freeze());
        let slot = pool.alloc(99_000).unwrap();
        assert_eq!((slot.as_ptr(), slot[7], slot.len()), (address, 9, 99_000));
    }

    #[test]
    fn the_budget_is_never_exceeded_and_comes_back() {
        let pool = Pool::new(64 << 10);
        let live: Vec<_> = (0..16).map(|_| pool.alloc(4096).unwrap()).collect();
        assert!(matches!(
            pool.alloc(1),
            Err(AllocError::Exhausted {
                in_use_bytes: 65536,
                ..
            })
        ));
        drop(live);
        assert_eq!(pool.stats().in_use_bytes, 0);
        // Sixteen cached pages make room for one buffer of another class.
        let large = pool.alloc(64 << 10).unwrap();
        let stats = pool.stats();
        assert_eq!(
            (stats.in_use_bytes, stats.held_bytes, stats.peak_bytes),
            (65536, 65536, 65536)
        );
        drop(pool);
        drop(large);
    }

    #[test]
    fn absurd_lengths_are_refused_before_allocation() {
        let pool = Pool::new(usize::MAX);
        assert!(matches!(pool.alloc(usize::MAX), Err(AllocError::TooLarge { .. })));
        assert!(matches!(
            pool.alloc(MAX_SLOT_BYTES + 1),
            Err(AllocError::TooLarge { .. })
        ));
        assert!(matches!(
            Pool::new(8192).alloc(8193),
            Err(AllocError::TooLarge {
                limit_bytes: 8192,
                ..
            })
        ));
        assert_eq!(pool.stats().held_bytes, 0);
    }

    #[test]
    fn threads_share_a_pool_without_losing_memory() {
        let pool = Pool::new(1 << 20);
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let pool = &pool;
                scope.spawn(move || {
                    for round in 0..500usize {
                        let size = 1 + round * 97 % 60_000;
                        let Ok(mut slot) = pool.alloc(size) else { continue };
                        slot.fill(thread);
                        assert!(slot.iter().all(|byte| *byte == thread));
                    }
                });
            }
        });
        let stats = pool.stats();
        assert_eq!(stats.in_use_bytes, 0);
        assert!(stats.held_bytes <= stats.budget_bytes);
    }

    #[test]
    fn reservations_count_and_displace_cached_memory() {
        let pool = Pool::new(64 << 10);
        drop(pool.alloc(40 << 10).unwrap());
        assert!(pool.reserve(48 << 10));
        assert_eq!(pool.stats().held_bytes, 48 << 10);
        assert!(!pool.reserve(20 << 10));
        assert!(matches!(pool.alloc(20 << 10), Err(AllocError::Exhausted { .. })));
        let live = pool.alloc(16 << 10).unwrap();
        pool.release(48 << 10);
        assert!(!pool.reserve(64 << 10));
        drop(live);
        assert!(pool.reserve(64 << 10));
    }

    proptest! {
        #[test]
        fn counters_follow_a_naive_model(ops in prop::collection::vec((any::<bool>(), 0usize..80_000), 1..60)) {
            let pool = Pool::new(256 << 10);
            let mut live: Vec<SlotMut> = Vec::new();
            let mut peak = 0;
            for (free, size) in ops {
                if free && !live.is_empty() {
                    live.swap_remove(size % live.len());
                } else if let Ok(slot) = pool.alloc(size) {
                    prop_assert_eq!(slot.len(), size);
                    live.push(slot);
                }
                let charged: usize = live.iter().map(|slot| class_bytes(class_of(slot.len()))).sum();
                peak = peak.max(charged);
                let stats = pool.stats();
                prop_assert_eq!(stats.in_use_bytes, charged);
                prop_assert_eq!(stats.peak_bytes, peak);
                prop_assert!(charged <= stats.held_bytes && stats.held_bytes <= stats.budget_bytes);
            }
        }
    }
}
