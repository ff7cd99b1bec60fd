//! `OpenPack`: takes finished elements out of a slot that is still being written. Refuses to wait: it returns what is there.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::ends::Ends;
use super::finished::Pack;
use crate::slot::SlotHead;

/// The taking side of a pack in the making; made by [`PackWriter::open`](super::PackWriter::open). Each element is
/// taken once, in order, whichever thread takes it.
pub struct OpenPack {
    head: SlotHead,
    ends: Arc<Ends>,
    taken: AtomicUsize,
    closed: AtomicBool,
}

impl OpenPack {
    pub(super) fn new(head: SlotHead, ends: Ends) -> OpenPack {
        OpenPack {
            head,
            ends: Arc::new(ends),
            taken: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        }
    }

    pub(super) fn ends(&self) -> &Ends {
        &self.ends
    }

    pub(super) fn close(&self) {
        // Release: pairs with the Acquire in `is_closed`, so that who sees it closed sees every element.
        self.closed.store(true, Ordering::Release);
    }

    /// Takes the elements that are finished and not yet taken: at most `max_elements`, up to the first of more than
    /// `max_element_bytes`. `None` when that is none. Never blocks.
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
            // Relaxed: `taken` only divides the elements among takers; their bytes are published by `ends.len`.
            match self
                .taken
                .compare_exchange_weak(first, upto, Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => {
                    let region = self.head.slice(self.ends.start(first)..self.ends.end(upto - 1))?;
                    return Some(Pack::of_ends(region, Arc::clone(&self.ends), first..upto));
                }
                Err(now) => first = now,
            }
        }
    }

    /// How many finished elements are not yet taken.
    #[must_use]
    pub fn available(&self) -> usize {
        self.ends.len().saturating_sub(self.taken.load(Ordering::Relaxed))
    }

    /// Bytes of the next element to take, if it is finished.
    #[must_use]
    pub fn next_len(&self) -> Option<u64> {
        let next = self.taken.load(Ordering::Relaxed);
        (next < self.ends.len()).then(|| (self.ends.end(next) - self.ends.start(next)) as u64)
    }

    /// Whether the writer is gone, so that no more elements come.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        // Acquire: pairs with the Release in `close`.
        self.closed.load(Ordering::Acquire)
    }

    /// Whether the writer is gone and every element was taken.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.is_closed() && self.available() == 0
    }
}

impl fmt::Debug for OpenPack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_closed() { "closed" } else { "open" };
        write!(
            f,
            "OpenPack({state}, {} of {} elements left)",
            self.available(),
            self.ends.len()
        )
    }
}
