//! Slots: the aligned memory that contains elements, its allocators, and the rules for reading and writing
//! its parts.
//!
//! - `region`: the memory itself, and its return to its owner (unsafe)
//! - `shared`: [`SlotMut`] (exclusive) and [`Slot`] (shared, read only) over a region (unsafe)
//! - `append`: [`SlotTail`] and [`SlotHead`], a slot whose written prefix is read while its remaining part is
//!   written (unsafe)
//! - `alloc`: [`SlotAlloc`], and the allocator on the heap
//! - `pool`: a bounded allocator that reuses memory

mod alloc;
mod append;
mod pool;
mod region;
mod shared;

pub use alloc::{AllocError, HeapAlloc, MAX_SLOT_BYTES, SlotAlloc};
pub use append::{SlotHead, SlotTail};
pub use pool::{Pool, PoolStats};
pub use region::{Memory, Reclaim, SLOT_ALIGN};
pub use shared::{Slot, SlotMut};
