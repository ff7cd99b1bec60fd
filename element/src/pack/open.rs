//! `OpenPack`: takes finished elements out of a slot that is still being written. Refuses to wait: it returns
//! what is there.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::ends::Ends;
use super::finished::Pack;
use crate::slot::SlotHead;

/// The taking side of a pack in the making; made by [`PackWriter::open`](super::PackWriter::open). Each
/// element is [taken](OpenPack::take) once, in order, whichever thread takes it; a [`part`](OpenPack::part)
/// is shared by all who ask.
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

    /// Takes the elements that are finished and not yet taken: at most `max_elements`, up to the first of
    /// more than `max_element_bytes`. `None` when that is none. Never blocks.
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
            // Relaxed: `taken` only divides the elements among takers; their bytes are published by
            // `ends.len`.
            match self
                .taken
                .compare_exchange_weak(first, upto, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return self.pack(first..upto),
                Err(now) => first = now,
            }
        }
    }

    /// Bytes of the next element to take, if it is finished.
    #[must_use]
    pub fn next_len(&self) -> Option<u64> {
        self.element_len(self.taken.load(Ordering::Relaxed))
    }

    /// Finished elements from `first` on, whether they were taken or not, for a caller that keeps account of
    /// its own: at most `max_elements`, up to the first of more than `max_element_bytes`. `None` when that is
    /// none. Never blocks.
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

    /// Returns how many elements are finished; only grows.
    #[must_use]
    pub fn finished(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of an element, if it is finished.
    #[must_use]
    pub fn element_len(&self, index: usize) -> Option<u64> {
        (index < self.ends.len()).then(|| (self.ends.end(index) - self.ends.start(index)) as u64)
    }

    /// Returns a pack of these elements, of which there is at least one and all are finished.
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
