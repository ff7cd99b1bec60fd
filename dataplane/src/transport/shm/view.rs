//! A reader's side of a worker's arena: slots in memory that the worker handed over.
//!
//! Checks that what it is told lies in the mapping. Refuses to know leases: the caller that makes a slot says
//! what happens on its last drop.
#![expect(unsafe_code, reason = "slots in another process's memory")]

use std::sync::Arc;

use millstream_element::{Memory, Reclaim, SLOT_ALIGN, Slot};
use thiserror::Error;

use super::map::Mapping;

/// The place that a worker announced is not in its arena. The peer is at fault.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[error(
    "the worker announced {len_bytes} bytes at {offset_bytes} of shared memory that has {size_bytes}, in units of {SLOT_ALIGN}"
)]
pub struct OutOfArena {
    /// The offset that it announced.
    pub offset_bytes: u64,
    /// The length that it announced.
    pub len_bytes: u64,
    /// The size of the arena.
    pub size_bytes: u64,
}

/// An arena of a worker, as a reader sees it; clones share it. Its memory stays mapped as long as a slot of
/// it lives.
#[derive(Debug, Clone)]
pub struct ArenaView {
    mapping: Arc<Mapping>,
}

/// Keeps the mapping for a slot.
struct Held<F> {
    _mapping: Arc<Mapping>,
    on_last_drop: F,
}

impl ArenaView {
    /// A view of memory that was received and checked.
    #[must_use]
    pub fn new(mapping: Mapping) -> Self {
        Self {
            mapping: Arc::new(mapping),
        }
    }

    /// Bytes of the arena.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.mapping.size_bytes() as u64
    }

    /// A slot of `len_bytes` at `offset_bytes`, a multiple of 64, as the worker announced them. It can be
    /// made writable by its only view unless it `is_shared` with other readers. `on_last_drop` is called
    /// once, when the last view of it was dropped, on whichever thread did so; it must be quick and must not
    /// block.
    ///
    /// The worker promises not to write these bytes before it is told that they were dropped. It promises not
    /// to announce them again where they are not shared. One that breaks the promise changes what is read, as
    /// it could by writing; what must not change between being checked and being used is copied out first.
    ///
    /// # Errors
    /// [`OutOfArena`]; then nothing is called.
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
        // SAFETY: the range lies in the mapping, begins at a multiple of 64 of a page, and is initialised, as
        // files are. The mapping is this view's alone, and `owner` keeps it. That two slots do not overlap is
        // the worker's promise, as is that it does not write them itself: plain bytes are all that a slot
        // shows, and no value of theirs is invalid.
        Ok(unsafe { Slot::from_mapping(start, len_bytes as usize, is_shared, owner) })
    }
}

impl<F: Fn() + Send + Sync> Reclaim for Held<F> {
    fn reclaim(&self, memory: Memory) {
        // Nobody else may have it: it is only as good as the mapping.
        drop(memory);
        (self.on_last_drop)();
    }
}
