//! The memory of received elements: the pool, or the heap when the consumer keeps so many that the pool runs
//! dry.

use std::sync::atomic::{AtomicBool, Ordering};

use millstream_element::{AllocError, HeapAlloc, Pool, SlotAlloc, SlotMut};

/// A pool that spills to the heap, and says so once.
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
                        "the reader's pool is used up: elements are kept long after they were read. New ones go to the heap, \
                         which is slower; copy out what must live long, or raise max_outstanding_bytes"
                    );
                }
                HeapAlloc.alloc(size_bytes)
            }
            other => other,
        }
    }
}
