//! The memory that all tasks of a worker may keep together for the cross-trainer cache, and its statistics.
//!
//! This file owns the limits and the counts. It does not know elements: a task says how much it keeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The memory that a worker may keep for trainers that come late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheLimits {
    /// Bytes of elements that one task keeps; default 256 MiB, a quarter of a worker's default memory for
    /// elements, so that two caches leave as much as they take.
    pub task_bytes: u64,
    /// Bytes of elements that all tasks keep together, each an equal part of them at most; default 512 MiB,
    /// half of that memory, so that caches never starve what is on its way.
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

/// The statistics of a worker's caches so far, and their content now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Tasks with a cache.
    pub tasks: u64,
    /// Elements that a trainer was given and another had before.
    pub hits: u64,
    /// Elements that a trainer was the first to have.
    pub misses: u64,
    /// Bytes of elements kept, the gaps between them included.
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

/// One task's part of it; given back when dropped.
#[derive(Debug)]
pub(super) struct CacheShare {
    cache: Arc<Cache>,
    /// Bytes of this task among `cache.bytes`.
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

// Relaxed throughout: the counts bound and describe; elements are handed over under their task's lock.
impl CacheShare {
    pub(super) fn new(cache: &Arc<Cache>) -> Self {
        cache.tasks.fetch_add(1, Ordering::Relaxed);
        Self {
            cache: cache.clone(),
            bytes: 0,
        }
    }

    /// Bytes that the task may keep now. Fewer once others begin: it then keeps less when it next takes an
    /// element in.
    pub(super) fn capacity_bytes(&self) -> u64 {
        let limits = self.cache.limits;
        let tasks = self.cache.tasks.load(Ordering::Relaxed).max(1);
        limits.task_bytes.min(limits.all_bytes / tasks)
    }

    /// A trainer was given `elements`, of which nobody had `misses` before; the task keeps `bytes` now.
    pub(super) fn note(&mut self, elements: u64, misses: u64, bytes: u64) {
        self.cache.hits.fetch_add(elements - misses, Ordering::Relaxed);
        self.cache.misses.fetch_add(misses, Ordering::Relaxed);
        // Wraps when it keeps less than before, and so comes out right.
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
