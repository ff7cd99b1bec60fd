//! A slot that grows: `SlotTail` writes after the committed bytes, while `SlotHead` reads the committed
//! bytes.
//!
//! Invariant: bytes below the committed length are never written again. Only the tail accesses the bytes from
//! the committed length on. This file does not know the meaning of the bytes.
#![expect(
    unsafe_code,
    reason = "one region, written and read at once in disjoint ranges"
)]

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::region::Region;
use super::shared::{Slot, SlotMut};

/// The only writer of an append-only slot.
pub struct SlotTail {
    shared: Arc<Growing>,
    /// This side's copy of `shared.committed`; the two values are equal between calls.
    committed: usize,
}

/// A reader of the committed prefix of an append-only slot. Clones are cheap.
#[derive(Clone)]
pub struct SlotHead {
    shared: Arc<Growing>,
}

struct Growing {
    region: Arc<Region>,
    capacity: usize,
    committed: AtomicUsize,
}

impl SlotMut {
    /// Converts the slot into the writer and the reader of an append-only slot.
    #[must_use]
    pub fn into_tail(self) -> (SlotTail, SlotHead) {
        let (region, capacity) = self.into_region();
        SlotTail::new(region, capacity)
    }
}

impl SlotTail {
    fn new(region: Arc<Region>, capacity: usize) -> (SlotTail, SlotHead) {
        debug_assert!(capacity <= region.size_bytes());
        let shared = Arc::new(Growing {
            region,
            capacity,
            committed: AtomicUsize::new(0),
        });
        (
            SlotTail {
                shared: Arc::clone(&shared),
                committed: 0,
            },
            SlotHead { shared },
        )
    }

    /// Returns the bytes after the committed bytes. The bytes are initialized, but may contain old data of
    /// the memory.
    #[inline]
    pub fn spare(&mut self) -> &mut [u8] {
        let spare_bytes = self.shared.capacity - self.committed;
        // SAFETY: `committed <= capacity <= region.size_bytes()`, so the range is inside the region and is
        // initialized. Heads make slots only below `committed`, and `&mut self` is the only tail, so no other
        // code accesses the range.
        unsafe {
            let start = self.shared.region.start().add(self.committed);
            std::slice::from_raw_parts_mut(start.as_ptr(), spare_bytes)
        }
    }

    /// Publishes the first `n` spare bytes to the heads.
    ///
    /// # Panics
    /// Panics if fewer than `n` bytes are spare.
    #[inline]
    pub fn commit(&mut self, n: usize) {
        assert!(
            n <= self.shared.capacity - self.committed,
            "commit of {n} bytes beyond the slot's end"
        );
        self.committed += n;
        // Release: pairs with the Acquire in `SlotHead::committed`, so that a reader of the new length also
        // sees the bytes.
        self.shared.committed.store(self.committed, Ordering::Release);
    }

    /// Returns the number of bytes published so far.
    #[must_use]
    pub fn committed(&self) -> usize {
        self.committed
    }

    /// Returns the size of the whole slot in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.shared.capacity
    }
}

impl SlotHead {
    /// Returns the number of bytes published so far, which only grows.
    #[must_use]
    pub fn committed(&self) -> usize {
        // Acquire: pairs with the Release in `SlotTail::commit`.
        self.shared.committed.load(Ordering::Acquire)
    }

    /// Returns a shared slot of published bytes; `None` if a part of the range is not published.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Option<Slot> {
        if range.start > range.end || range.end > self.committed() {
            return None;
        }
        // SAFETY: `committed` never exceeds the region, and the tail never writes below `committed` again.
        Some(unsafe { Slot::of_region(Arc::clone(&self.shared.region), range) })
    }
}

impl fmt::Debug for SlotTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SlotTail({} of {} bytes)",
            self.committed, self.shared.capacity
        )
    }
}

impl fmt::Debug for SlotHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SlotHead({} of {} bytes)",
            self.committed(),
            self.shared.capacity
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::slot::{HeapAlloc, SlotAlloc};

    #[test]
    fn only_committed_bytes_can_be_read() {
        let (mut tail, head) = HeapAlloc.alloc(128).unwrap().into_tail();
        assert!(head.slice(0..1).is_none());
        tail.spare()[..3].copy_from_slice(b"abc");
        tail.commit(3);
        let first = head.slice(0..3).unwrap();
        tail.spare()[..2].copy_from_slice(b"de");
        assert!(head.slice(3..5).is_none());
        tail.commit(2);
        assert_eq!(head.slice(1..5).unwrap()[..], *b"bcde");
        assert_eq!(
            (tail.committed(), tail.capacity(), tail.spare().len()),
            (5, 128, 123)
        );
        drop((tail, head));
        assert_eq!(first[..], *b"abc");
    }

    #[test]
    #[should_panic(expected = "beyond the slot's end")]
    fn committing_beyond_the_end_panics() {
        let (mut tail, _head) = HeapAlloc.alloc(64).unwrap().into_tail();
        tail.commit(65);
    }

    #[test]
    fn another_thread_sees_every_committed_byte() {
        let (mut tail, head) = HeapAlloc.alloc(4096).unwrap().into_tail();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for value in 0..4096u32 {
                    tail.spare()[0] = value as u8;
                    tail.commit(1);
                }
            });
            let mut seen = 0;
            while seen < 4096 {
                let committed = head.committed();
                let slot = head.slice(seen..committed).unwrap();
                assert!(slot.iter().zip(seen..).all(|(byte, value)| *byte == value as u8));
                seen = committed;
                std::thread::yield_now();
            }
        });
    }
}
