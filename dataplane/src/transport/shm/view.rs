//! A reader's side of a worker's arena: slots in memory that the worker handed over.
//!
//! The view checks that announced ranges are inside the mapping. Leases are unknown to it: the caller that
//! makes a slot provides the action for the slot's last drop.
#![expect(unsafe_code, reason = "slots in another process's memory")]

use std::sync::Arc;

use millstream_element::{Memory, Reclaim, SLOT_ALIGN, Slot};
use thiserror::Error;

use super::map::Mapping;

/// The error for an announced range that is outside the worker's arena. The worker is at fault.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[error(
    "invalid range of shared memory: the worker announced {len_bytes} bytes at {offset_bytes}, expected a range within {size_bytes} bytes, in units of {SLOT_ALIGN}"
)]
pub struct OutOfArena {
    /// The announced offset, in bytes.
    pub offset_bytes: u64,
    /// The announced length, in bytes.
    pub len_bytes: u64,
    /// The size of the arena, in bytes.
    pub size_bytes: u64,
}

/// A reader's view of a worker's arena. Clones share the mapping, which lives as long as a view or a slot of
/// it.
#[derive(Debug, Clone)]
pub struct ArenaView {
    mapping: Arc<Mapping>,
}

/// The owner of a slot's memory, which keeps the mapping alive.
struct Held<F> {
    _mapping: Arc<Mapping>,
    on_last_drop: F,
}

impl ArenaView {
    /// Makes a view of memory that was received and checked.
    #[must_use]
    pub fn new(mapping: Mapping) -> Self {
        Self {
            mapping: Arc::new(mapping),
        }
    }

    /// Returns the size of the arena, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.mapping.size_bytes() as u64
    }

    /// Makes a slot of `len_bytes` at `offset_bytes`, which must be a multiple of 64, as announced by the
    /// worker. The slot can be made writable by its only view, unless the memory `is_shared` with other
    /// readers.
    ///
    /// `on_last_drop` is called once, after the last view of the slot was dropped, on the thread that dropped
    /// it. The closure must be quick and must not block.
    ///
    /// The worker promises not to write the bytes before their return was announced. Bytes that are not
    /// shared are not announced again either. A worker that breaks the promise changes what the reader reads.
    /// Therefore data that must not change between check and use is copied out first.
    ///
    /// # Errors
    /// Returns [`OutOfArena`] if the range is invalid. `on_last_drop` is not called then.
    pub fn slot(
        &self,
        offset_bytes: u64,
        len_bytes: u64,
        is_shared: bool,
        on_last_drop: impl Fn() + Send + Sync + 'static,
    ) -> Result<Slot, OutOfArena> {
        let start = self.mapping.at(offset_bytes, len_bytes);
        let start = start.filter(|_| offset_bytes.is_multiple_of(SLOT_ALIGN as u64));
        let Some(start) = start else {
            return Err(OutOfArena {
                offset_bytes,
                len_bytes,
                size_bytes: self.size_bytes(),
            });
        };
        let owner = Arc::new(Held {
            _mapping: self.mapping.clone(),
            on_last_drop,
        });
        // SAFETY: the range is inside the mapping, begins at a multiple of 64 of a page, and is initialised,
        // as files are. The mapping belongs to this view alone, and `owner` keeps the mapping alive. The
        // worker promises that slots do not overlap, and that it does not write to them. A slot shows plain
        // bytes only, of which every value is valid.
        Ok(unsafe { Slot::from_mapping(start, len_bytes as usize, is_shared, owner) })
    }
}

impl<F: Fn() + Send + Sync> Reclaim for Held<F> {
    fn reclaim(&self, memory: Memory) {
        // The memory must not be handed out again, because it lives only as long as the mapping.
        drop(memory);
        (self.on_last_drop)();
    }
}
