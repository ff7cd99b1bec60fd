//! The memory that the buffers of one pipeline may hold together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that the buffers of a pipeline may hold together unless told otherwise: a few batches of pictures at
/// every stage, on a worker that runs several tasks.
pub const BUDGET_BYTES_DEFAULT: usize = 256 << 20;

/// A count of buffered bytes with a limit. Clones are the same count.
#[derive(Debug, Clone)]
pub struct Budget {
    held: Arc<AtomicUsize>,
    limit_bytes: usize,
}

/// Bytes counted until dropped.
#[derive(Debug)]
pub struct Charge {
    held: Arc<AtomicUsize>,
    bytes: usize,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::new(BUDGET_BYTES_DEFAULT)
    }
}

impl Budget {
    /// A budget of so many bytes.
    pub fn new(limit_bytes: usize) -> Budget {
        Budget {
            held: Arc::default(),
            limit_bytes,
        }
    }

    /// The limit.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// Bytes held now.
    pub fn held_bytes(&self) -> usize {
        // Relaxed, here and below: a count that orders nothing else.
        self.held.load(Ordering::Relaxed)
    }

    /// Whether nothing more should be buffered. A buffer that is empty takes one element all the same, or
    /// nothing would ever move.
    pub fn is_spent(&self) -> bool {
        self.held_bytes() >= self.limit_bytes
    }

    /// Counts `bytes`.
    pub fn charge(&self, bytes: usize) -> Charge {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        Charge {
            held: Arc::clone(&self.held),
            bytes,
        }
    }
}

impl Charge {
    /// The bytes it counts.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts `bytes` from now on.
    pub fn set(&mut self, bytes: usize) {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
