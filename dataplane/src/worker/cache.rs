//! Limits the memory that all tasks of a worker keep together for the cross-trainer cache, and counts its
//! use.
//!
//! The module owns the limits and the counts. Elements are unknown to it: each task reports how much it
//! keeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The limits of the memory that a worker keeps for late trainers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheLimits {
    /// Maximum bytes of elements that one task keeps; default 256 MiB. The default is a quarter of a worker's
    /// default memory for elements, so that two caches leave half of that memory free.
    pub task_bytes: u64,
    /// Maximum bytes of elements that all tasks keep together; default 512 MiB. Each task may keep an equal
    /// part. The default is half of a worker's memory, so that caches never starve elements in flight.
    pub all_bytes: u64,
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self {
            task_bytes: 256 << 20,
            all_bytes: 512 << 20,
        }
    }
}

/// The statistics of a worker's caches so far, and their present size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// The number of tasks with a cache.
    pub tasks: u64,
    /// The number of elements handed to a trainer that another trainer had before.
    pub hits: u64,
    /// The number of elements handed to a trainer that no trainer had before.
    pub misses: u64,
    /// The number of bytes kept, including the gaps between elements.
    pub bytes: u64,
}

/// The caches of a worker.
#[derive(Debug, Default)]
pub(super) struct Cache {
    limits: CacheLimits,
    tasks: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    bytes: AtomicU64,
}

/// One task's part of the cache, which is released on drop.
#[derive(Debug)]
pub(super) struct CacheShare {
    cache: Arc<Cache>,
    /// The number of bytes in `cache.bytes` that belong to this task.
    bytes: u64,
}

impl Cache {
    pub(super) fn new(limits: CacheLimits) -> Self {
        Self {
            limits,
            tasks: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    pub(super) fn stats(&self) -> CacheStats {
        CacheStats {
            tasks: self.tasks.load(Ordering::Relaxed),
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

// The atomics are relaxed throughout: the counts limit and describe, and elements are handed over under their
// task's lock.
impl CacheShare {
    pub(super) fn new(cache: &Arc<Cache>) -> Self {
        cache.tasks.fetch_add(1, Ordering::Relaxed);
        Self {
            cache: cache.clone(),
            bytes: 0,
        }
    }

    /// Returns the number of bytes that the task may keep now. The number shrinks when other tasks begin; the
    /// task then keeps less from its next new element on.
    pub(super) fn capacity_bytes(&self) -> u64 {
        let limits = self.cache.limits;
        let tasks = self.cache.tasks.load(Ordering::Relaxed).max(1);
        limits.task_bytes.min(limits.all_bytes / tasks)
    }

    /// Records that a trainer was given `elements`, of which no trainer had `misses` before, and that the
    /// task keeps `bytes` now.
    pub(super) fn note(&mut self, elements: u64, misses: u64, bytes: u64) {
        self.cache.hits.fetch_add(elements - misses, Ordering::Relaxed);
        self.cache.misses.fetch_add(misses, Ordering::Relaxed);
        // The difference wraps around if the task keeps less than before, and the sum is still correct.
        self.cache
            .bytes
            .fetch_add(bytes.wrapping_sub(self.bytes), Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for CacheShare {
    fn drop(&mut self) {
        self.cache.tasks.fetch_sub(1, Ordering::Relaxed);
        self.cache.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_share_threads_and_return_them() {
        let cache = Arc::new(Cache::new(CacheLimits {
            task_bytes: 400,
            all_bytes: 900,
        }));
        let mut one = CacheShare::new(&cache);
        assert_eq!(one.capacity_bytes(), 400);
        one.note(5, 3, 300);
        let mut others = [CacheShare::new(&cache), CacheShare::new(&cache)];
        assert_eq!(one.capacity_bytes(), 300);
        others[0].note(1, 1, 100);
        one.note(1, 0, 50);
        let stats = CacheStats {
            tasks: 3,
            hits: 3,
            misses: 4,
            bytes: 150,
        };
        assert_eq!(cache.stats(), stats);
        drop((one, others));
        let left = CacheStats {
            tasks: 0,
            bytes: 0,
            ..stats
        };
        assert_eq!(cache.stats(), left);
    }
}
