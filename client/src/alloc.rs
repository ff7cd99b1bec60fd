//! Memory for received elements: a pool, or the heap once the consumer keeps enough elements to exhaust the
//! pool.

use std::sync::atomic::{AtomicBool, Ordering};

use millstream_element::{AllocError, HeapAlloc, Pool, SlotAlloc, SlotMut};

/// A pool that falls back to the heap, and logs one warning when it first does.
#[derive(Debug)]
pub(crate) struct Spill {
    pool: Pool,
    has_said: AtomicBool,
}

impl Spill {
    pub(crate) fn new(pool: Pool) -> Self {
        Self {
            pool,
            has_said: AtomicBool::new(false),
        }
    }
}

impl SlotAlloc for Spill {
    fn alloc(&self, size_bytes: usize) -> Result<SlotMut, AllocError> {
        match self.pool.alloc(size_bytes) {
            Err(AllocError::Exhausted { .. } | AllocError::TooLarge { .. }) => {
                if !self.has_said.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        "the reader's memory pool is exhausted: the program keeps elements long after it read them. New elements are allocated on the heap, \
                         which is slower; copy data that must live long, or raise max_outstanding_bytes"
                    );
                }
                HeapAlloc.alloc(size_bytes)
            }
            other => other,
        }
    }
}
