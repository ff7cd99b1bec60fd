//! `SlotAlloc`, the trait through which producers of elements get memory, and its implementation on the heap.
//! This file does not know the use of the memory.

use std::fmt::Debug;

use super::region::Memory;
use super::shared::SlotMut;

/// Maximum size of a slot: 64 GiB. A larger size is an attack or a mistake, and is refused before any
/// allocation.
pub const MAX_SLOT_BYTES: usize = 64 << 30;

/// An allocator of slots. Producers receive an allocator, so that the same code writes into heap memory,
/// shared memory or pinned memory.
pub trait SlotAlloc: Send + Sync + Debug {
    /// Allocates a slot of exactly `size_bytes`: 64-byte aligned and initialized, with unspecified content.
    /// Never blocks.
    ///
    /// # Errors
    /// [`AllocError`], whose variant says whether waiting can help.
    fn alloc(&self, size_bytes: usize) -> Result<SlotMut, AllocError>;
}

/// The error for a slot that cannot be allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AllocError {
    /// The requested size exceeds the limit, so that waiting cannot help. Nothing was allocated.
    #[error(
        "a slot of {size_bytes} bytes exceeds the limit of {limit_bytes} bytes; raise the byte budget or send smaller elements"
    )]
    TooLarge {
        /// The requested size in bytes.
        size_bytes: usize,
        /// The limit on the size of a slot, in bytes.
        limit_bytes: usize,
    },
    /// The budget is exhausted for now. Memory becomes available when slots are dropped.
    #[error(
        "no room for a slot of {size_bytes} bytes: {in_use_bytes} of the budget of {budget_bytes} are in use"
    )]
    Exhausted {
        /// The requested size in bytes.
        size_bytes: usize,
        /// The bytes held by live slots, in the pool's size classes.
        in_use_bytes: usize,
        /// The pool's budget in bytes.
        budget_bytes: usize,
    },
    /// The system has no memory left.
    #[error("the system has no memory for a slot of {size_bytes} bytes")]
    OutOfMemory {
        /// The requested size in bytes.
        size_bytes: usize,
    },
}

/// An allocator on the heap: its slots are zeroed, unlimited in number, and freed on the last drop.
#[derive(Debug, Clone, Copy, Default)]
pub struct HeapAlloc;

impl SlotAlloc for HeapAlloc {
    fn alloc(&self, size_bytes: usize) -> Result<SlotMut, AllocError> {
        if size_bytes > MAX_SLOT_BYTES {
            return Err(AllocError::TooLarge {
                size_bytes,
                limit_bytes: MAX_SLOT_BYTES,
            });
        }
        let memory = Memory::heap(size_bytes).ok_or(AllocError::OutOfMemory { size_bytes })?;
        Ok(SlotMut::new(memory, size_bytes, None))
    }
}
