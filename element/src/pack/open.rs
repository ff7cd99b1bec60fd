//! `OpenPack`: takes finished elements out of a slot that is still being written. The functions never wait;
//! they return the elements that are finished.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::ends::Ends;
use super::finished::Pack;
use crate::slot::SlotHead;

/// The taking side of a pack that is being written, returned by
/// [`PackWriter::open`](super::PackWriter::open). Each element is [taken](OpenPack::take) once and in order,
/// by any thread. A [`part`](OpenPack::part) can be shared by several callers.
pub struct OpenPack {
    head: SlotHead,
    ends: Arc<Ends>,
    taken: AtomicUsize,
}

impl OpenPack {
    pub(super) fn new(head: SlotHead, ends: Ends) -> OpenPack {
        OpenPack {
            head,
            ends: Arc::new(ends),
            taken: AtomicUsize::new(0),
        }
    }

    pub(super) fn ends(&self) -> &Ends {
        &self.ends
    }

    /// Takes finished elements that were not taken before: at most `max_elements`, and only up to the first
    /// element larger than `max_element_bytes`. Returns `None` if no element qualifies. Never blocks.
    #[must_use]
    pub fn take(&self, max_elements: usize, max_element_bytes: u64) -> Option<Pack> {
        let mut first = self.taken.load(Ordering::Relaxed);
        loop {
            let count = self
                .ends
                .fitting(first, self.ends.len(), max_elements, max_element_bytes);
            if count == 0 {
                return None;
            }
            let upto = first + count;
            // Relaxed: `taken` only divides the elements among takers. The load in `ends.len` makes their
            // bytes visible.
            match self
                .taken
                .compare_exchange_weak(first, upto, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return self.pack(first..upto),
                Err(now) => first = now,
            }
        }
    }

    /// Returns the length in bytes of the next element to take, if that element is finished.
    #[must_use]
    pub fn next_len(&self) -> Option<u64> {
        self.element_len(self.taken.load(Ordering::Relaxed))
    }

    /// Returns finished elements from `first` on, taken or not, for a caller that does its own bookkeeping.
    /// Returns at most `max_elements`, and only up to the first element larger than `max_element_bytes`.
    /// Returns `None` if no element qualifies. Never blocks.
    #[must_use]
    pub fn part(&self, first: usize, max_elements: usize, max_element_bytes: u64) -> Option<Pack> {
        let count = self
            .ends
            .fitting(first, self.ends.len(), max_elements, max_element_bytes);
        if count == 0 {
            return None;
        }
        self.pack(first..first + count)
    }

    /// Returns the number of finished elements, which only grows.
    #[must_use]
    pub fn finished(&self) -> usize {
        self.ends.len()
    }

    /// Returns the length in bytes of an element, if the element is finished.
    #[must_use]
    pub fn element_len(&self, index: usize) -> Option<u64> {
        (index < self.ends.len()).then(|| (self.ends.end(index) - self.ends.start(index)) as u64)
    }

    /// Returns a pack of these elements. The range must not be empty, and all its elements must be finished.
    fn pack(&self, elements: Range<usize>) -> Option<Pack> {
        let bytes = self.ends.start(elements.start)..self.ends.end(elements.end - 1);
        let region = self.head.slice(bytes)?;
        Some(Pack::of_ends(region, Arc::clone(&self.ends), elements))
    }
}

impl fmt::Debug for OpenPack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let taken = self.taken.load(Ordering::Relaxed);
        write!(f, "OpenPack({taken} of {} elements taken)", self.ends.len())
    }
}
