//! The limit on the memory that the blocks of all open files hold together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A byte limit that open files share.
#[derive(Debug)]
pub(super) struct Memory {
    held_bytes: AtomicU64,
    limit_bytes: u64,
}

/// A number of bytes that counts against the limit until the charge is dropped.
#[derive(Debug)]
pub(super) struct Charge {
    memory: Arc<Memory>,
    bytes: u64,
}

impl Memory {
    pub(super) fn new(limit_bytes: u64) -> Arc<Memory> {
        Arc::new(Memory {
            held_bytes: AtomicU64::new(0),
            limit_bytes,
        })
    }

    /// Takes `bytes` bytes if the limit allows; returns `None` otherwise.
    pub(super) fn take(self: &Arc<Memory>, bytes: u64) -> Option<Charge> {
        // `Relaxed` ordering suffices, because the counter does not order other memory accesses.
        let taken = self
            .held_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
                held.checked_add(bytes).filter(|held| *held <= self.limit_bytes)
            });
        taken.ok().map(|_| self.charge(bytes))
    }

    /// Takes `bytes` bytes even beyond the limit, for a block without which a reader cannot continue.
    pub(super) fn take_anyway(self: &Arc<Memory>, bytes: u64) -> Charge {
        self.held_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.charge(bytes)
    }

    fn charge(self: &Arc<Memory>, bytes: u64) -> Charge {
        Charge {
            memory: Arc::clone(self),
            bytes,
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.memory.held_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_memory_beyond_the_limit_is_freed() {
        let memory = Memory::new(10);
        let first = memory.take(6).unwrap();
        assert!(memory.take(5).is_none());
        let beyond = memory.take_anyway(5);
        assert!(memory.take(1).is_none());
        drop(beyond);
        let second = memory.take(4).unwrap();
        drop((first, second));
        assert!(memory.take(10).is_some());
        assert!(memory.take(u64::MAX).is_none());
    }
}
