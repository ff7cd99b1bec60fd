//! The ends of a pack's elements: a table of fixed capacity that one writer fills while other threads read
//! the filled part. This file does not know the contents of elements.
//!
//! Invariant: an element starts at the first 64-byte boundary after the end of the previous element.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::header::align_up;
use crate::slot::SLOT_ALIGN;

/// Maximum number of elements in one pack. The table of their ends takes 8 MiB.
pub const MAX_PACK_ELEMENTS: usize = 1 << 20;

/// The table of ends. Ends are counted from the start of the pack's very first element.
#[derive(Debug)]
pub(super) struct Ends {
    ends: Box<[AtomicU64]>,
    count: AtomicUsize,
}

impl Ends {
    pub(super) fn with_capacity(capacity: usize) -> Ends {
        let capacity = capacity.min(MAX_PACK_ELEMENTS);
        Ends {
            ends: (0..capacity).map(|_| AtomicU64::new(0)).collect(),
            count: AtomicUsize::new(0),
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.ends.len()
    }

    /// Adds the end of the next element. Only the single writer may call this function. Returns false if the
    /// table is full.
    #[inline]
    pub(super) fn push(&self, end: usize) -> bool {
        // Relaxed: only this thread writes the count.
        let count = self.count.load(Ordering::Relaxed);
        let Some(place) = self.ends.get(count) else {
            return false;
        };
        // Relaxed: the store to the count below publishes this value.
        place.store(end as u64, Ordering::Relaxed);
        // Release: pairs with the Acquire in `len`, so that a reader of the count also sees the end and the
        // committed bytes.
        self.count.store(count + 1, Ordering::Release);
        true
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        // Acquire: pairs with the Release in `push`.
        self.count.load(Ordering::Acquire)
    }

    /// Returns the end of an element. `index` must be below `len`.
    #[inline]
    pub(super) fn end(&self, index: usize) -> usize {
        // Relaxed: a thread with an index below `len` has synchronized with the writer in `len`.
        self.ends
            .get(index)
            .map_or(0, |end| end.load(Ordering::Relaxed) as usize)
    }

    /// Returns the start of an element. The previous element must be finished.
    #[inline]
    pub(super) fn start(&self, index: usize) -> usize {
        match index.checked_sub(1) {
            Some(before) => align_up(self.end(before), SLOT_ALIGN),
            None => 0,
        }
    }

    /// Returns how many elements from `first` on, up to `upto`, fit the limits: at most `max_elements`
    /// elements, each with at most `max_element_bytes` bytes.
    #[inline]
    pub(super) fn fitting(
        &self,
        first: usize,
        upto: usize,
        max_elements: usize,
        max_element_bytes: u64,
    ) -> usize {
        let upto = upto.min(first.saturating_add(max_elements));
        let mut start = self.start(first);
        let mut index = first;
        while index < upto {
            let end = self.end(index);
            if (end - start) as u64 > max_element_bytes {
                break;
            }
            start = align_up(end, SLOT_ALIGN);
            index += 1;
        }
        index - first
    }
}
