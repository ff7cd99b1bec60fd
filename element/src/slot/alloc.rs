//! `SlotAlloc`, the way producers of elements are given memory, and the plain heap behind it.
//! Refuses to know what the memory is for.

use std::fmt::Debug;

use super::region::Memory;
use super::shared::SlotMut;

/// No slot is larger than this: 64 GiB. A longer length is a lie or a mistake, and is refused before any
/// allocation.
pub const MAX_SLOT_BYTES: usize = 64 << 30;

/// Hands out slots. Producers are given one, so that the same code writes into heap, shared memory or pinned
/// memory.
pub trait SlotAlloc: Send + Sync + Debug {
    /// A slot of exactly `size_bytes`: 64-byte aligned and initialised, with unspecified content. Never
    /// blocks.
    ///
    /// # Errors
    /// [`AllocError`], which says whether waiting can help.
    fn alloc(&self, size_bytes: usize) -> Result<SlotMut, AllocError>;
}

/// Why there is no slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AllocError {
    /// The caller asked for more than can ever be given; nothing was allocated.
    #[error(
        "a slot of {size_bytes} bytes exceeds the limit of {limit_bytes}; raise the byte budget or send less at once"
    )]
    TooLarge {
        /// Bytes asked for.
        size_bytes: usize,
        /// The largest slot.
        limit_bytes: usize,
    },
    /// The resource is used up for now: it comes back as slots are dropped.
    #[error(
        "no room for a slot of {size_bytes} bytes: {in_use_bytes} of the budget of {budget_bytes} are in use"
    )]
    Exhausted {
        /// Bytes asked for.
        size_bytes: usize,
        /// Bytes held by live slots, as the pool counts them.
        in_use_bytes: usize,
        /// The pool's budget.
        budget_bytes: usize,
    },
    /// The system has no memory.
    #[error("the system has no memory for a slot of {size_bytes} bytes")]
    OutOfMemory {
        /// Bytes asked for.
        size_bytes: usize,
    },
}

/// Slots straight from the heap: zeroed, unbounded in number, freed on the last drop.
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
