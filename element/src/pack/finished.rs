//! `Pack`: finished elements side by side, ready to be sent, split and opened. This file does not know the
//! contents of elements.
//!
//! Invariant: the region starts at the start of the first element and ends at the end of the last element.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::ends::{Ends, MAX_PACK_ELEMENTS};
use crate::header::align_up;
use crate::slot::{MAX_SLOT_BYTES, SLOT_ALIGN, Slot};

/// Finished elements side by side in one slot. Clones and parts share the memory; making one costs two atomic
/// increments.
#[derive(Clone)]
pub struct Pack {
    region: Slot,
    ends: Arc<Ends>,
    /// The index of the first element in `ends`.
    first: usize,
    count: usize,
}

/// The error for received parts that do not form a pack. All variants except `Misaligned` are faults of the
/// sender; `Misaligned` is a fault of the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    /// The pack has no elements or too many elements.
    #[error("expected 1 to {MAX_PACK_ELEMENTS} elements in a pack, found {count}")]
    Count {
        /// The number of listed elements.
        count: usize,
    },
    /// An element has a length of 0 bytes.
    #[error("element {index} of the pack has no bytes")]
    Empty {
        /// The index of the element.
        index: usize,
    },
    /// The lengths do not cover the region exactly.
    #[error("the elements of the pack do not cover its {region_bytes} bytes exactly")]
    Cover {
        /// Size of the region in bytes.
        region_bytes: usize,
    },
    /// The region does not start at a 64-byte boundary.
    #[error("a pack must start at a {SLOT_ALIGN}-byte boundary")]
    Misaligned,
}

impl Pack {
    pub(super) fn of_ends(region: Slot, ends: Arc<Ends>, elements: Range<usize>) -> Pack {
        Pack {
            region,
            ends,
            first: elements.start,
            count: elements.len(),
        }
    }

    /// Makes a pack from received bytes and the table of lengths that was received with them. Reads no
    /// element.
    ///
    /// # Errors
    /// [`PackError`] unless the lengths cover the region exactly, with each element at a 64-byte boundary.
    pub fn from_parts(region: Slot, lens: &[u64]) -> Result<Pack, PackError> {
        let count = lens.len();
        if count == 0 || count > MAX_PACK_ELEMENTS {
            return Err(PackError::Count { count });
        }
        if !region.as_ptr().addr().is_multiple_of(SLOT_ALIGN) {
            return Err(PackError::Misaligned);
        }
        let region_bytes = region.len();
        let ends = Ends::with_capacity(count);
        let mut end = 0;
        for (index, len) in lens.iter().enumerate() {
            if *len == 0 {
                return Err(PackError::Empty { index });
            }
            // The current end is at most a slot's length, and so is the next end.
            let next = (align_up(end, SLOT_ALIGN) as u64).checked_add(*len);
            let next = next.filter(|next| *next <= region_bytes.min(MAX_SLOT_BYTES) as u64);
            end = next.ok_or(PackError::Cover { region_bytes })? as usize;
            ends.push(end);
        }
        if end != region_bytes {
            return Err(PackError::Cover { region_bytes });
        }
        Ok(Pack {
            region,
            ends: Arc::new(ends),
            first: 0,
            count,
        })
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether the pack has no elements, which happens only by splitting.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the bytes of all elements and the gaps between them, from the first start to the last end.
    #[must_use]
    pub fn region(&self) -> &Slot {
        &self.region
    }

    /// Returns the length of each element in bytes.
    pub fn lens(&self) -> impl ExactSizeIterator<Item = u64> + Clone + '_ {
        let elements = self.first..self.first + self.count;
        elements.map(|index| (self.ends.end(index) - self.ends.start(index)) as u64)
    }

    /// Returns how many of the first elements fit the limits: at most `max_elements` elements, each with at
    /// most `max_element_bytes` bytes.
    #[must_use]
    pub fn fitting(&self, max_elements: usize, max_element_bytes: u64) -> usize {
        self.ends.fitting(
            self.first,
            self.first + self.count,
            max_elements,
            max_element_bytes,
        )
    }

    /// Removes the first `n` elements and returns them as a pack. Both packs share the memory.
    ///
    /// # Panics
    /// Panics if the pack has fewer than `n` elements.
    #[must_use]
    pub fn split_to(&mut self, n: usize) -> Pack {
        assert!(
            n <= self.count,
            "split at element {n} of a pack of {}",
            self.count
        );
        let (base, region_bytes) = (self.ends.start(self.first), self.region.len());
        let split = self.first + n;
        let head_end = if n == 0 {
            0
        } else {
            self.ends.end(split - 1) - base
        };
        let rest_start = if n == self.count {
            region_bytes
        } else {
            self.ends.start(split) - base
        };
        let head = Pack {
            region: self.region.slice(0..head_end),
            ends: Arc::clone(&self.ends),
            first: self.first,
            count: n,
        };
        self.region.advance(rest_start);
        self.first = split;
        self.count -= n;
        head
    }

    /// Returns one element as a slot that shares the memory, at the cost of one atomic increment. Returns
    /// `None` if the index is too large.
    #[must_use]
    pub fn element_slot(&self, index: usize) -> Option<Slot> {
        if index >= self.count {
            return None;
        }
        let base = self.ends.start(self.first);
        let (start, end) = (
            self.ends.start(self.first + index),
            self.ends.end(self.first + index),
        );
        Some(self.region.slice(start - base..end - base))
    }

    /// Returns every element as a slot, in order.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        (0..self.count).filter_map(|index| self.element_slot(index))
    }
}

impl fmt::Debug for Pack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pack({} elements, {} bytes)", self.count, self.region.len())
    }
}
