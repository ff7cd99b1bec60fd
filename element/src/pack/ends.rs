//! The ends of a pack's elements: a table of fixed capacity that one writer fills while others read its
//! filled part. Refuses to know the bytes between.
//!
//! Invariant: an element starts at the next 64-byte boundary after the end of the one before it.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::header::align_up;
use crate::slot::SLOT_ALIGN;

/// Elements of one pack: a table of 8 MiB.
pub const MAX_PACK_ELEMENTS: usize = 1 << 20;

/// The table. Ends are counted from the start of the first element ever put into it.
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

    /// Adds the end of the next element; only the one writer calls this. False when the table is full.
    #[inline]
    pub(super) fn push(&self, end: usize) -> bool {
        // Relaxed: this thread is the only one to write the count.
        let count = self.count.load(Ordering::Relaxed);
        let Some(place) = self.ends.get(count) else {
            return false;
        };
        // Relaxed: published by the count below.
        place.store(end as u64, Ordering::Relaxed);
        // Release: pairs with the Acquire in `len`, so that a reader of the count sees the end, and the
        // committed bytes.
        self.count.store(count + 1, Ordering::Release);
        true
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        // Acquire: pairs with the Release in `push`.
        self.count.load(Ordering::Acquire)
    }

    /// The end of an element below `len`.
    #[inline]
    pub(super) fn end(&self, index: usize) -> usize {
        // Relaxed: a thread that names an index below `len` has synchronised with its writer there.
        self.ends
            .get(index)
            .map_or(0, |end| end.load(Ordering::Relaxed) as usize)
    }

    /// The start of an element, known once the one before it is there.
    #[inline]
    pub(super) fn start(&self, index: usize) -> usize {
        match index.checked_sub(1) {
            Some(before) => align_up(self.end(before), SLOT_ALIGN),
            None => 0,
        }
    }

    /// Returns how many elements from `first` on, at most `max_elements`, have at most `max_element_bytes`
    /// each, looking no further than `upto`.
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
