//! Slots: aligned memory that elements live in, who hands it out, and who may read or write which part of it
//! when.
//!
//! - `region`: the memory itself and its way back to its owner (unsafe)
//! - `shared`: [`SlotMut`] (exclusive) and [`Slot`] (shared, read only) over a region (unsafe)
//! - `append`: [`SlotTail`] and [`SlotHead`], a slot whose written prefix is read while the rest is written
//!   (unsafe)
//! - `alloc`: [`SlotAlloc`] and the plain heap
//! - `pool`: a bounded, reusing allocator

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
