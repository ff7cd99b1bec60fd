//! The two ways to hold bytes of a region: `SlotMut`, exclusive, and `Slot`, shared and read only.
//!
//! Invariant: while a `Slot` lives, no code of this process writes the bytes that the slot covers. This file
//! does not know the meaning of the bytes.
#![expect(
    unsafe_code,
    reason = "views into a region by address, so that reading one follows no second pointer"
)]

use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;

use super::region::{Access, Memory, Reclaim, Region};

/// Exclusive use of a slot: 64-byte aligned and initialized, but not necessarily zeroed, because a pool
/// reuses memory.
pub struct SlotMut {
    /// The region, never cloned while this value lives.
    region: Arc<Region>,
    len: usize,
}

impl SlotMut {
    /// Makes a slot of the first `len` bytes of `memory`. When the slot's last view is dropped, the memory
    /// returns to `owner`, or is dropped if `owner` is `None`. Reduces a `len` beyond the memory to the size
    /// of the memory.
    #[must_use]
    pub fn new(memory: Memory, len: usize, owner: Option<Arc<dyn Reclaim>>) -> SlotMut {
        let len = len.min(memory.size_bytes());
        SlotMut {
            region: Arc::new(Region::new(memory, owner)),
            len,
        }
    }

    /// Ends writing: the slot becomes shared and read only.
    #[must_use]
    pub fn freeze(self) -> Slot {
        let start = self.region.start();
        Slot {
            region: self.region,
            start,
            len: self.len,
        }
    }

    /// Keeps only the first `len` bytes. Has no effect if the slot is shorter.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Returns the region, and the length of the slot.
    pub(super) fn into_region(self) -> (Arc<Region>, usize) {
        (self.region, self.len)
    }
}

impl Deref for SlotMut {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes from the start are inside the region and are initialized. `region` is not
        // shared, so the only possible writer needs `&mut self`.
        unsafe { std::slice::from_raw_parts(self.region.start().as_ptr(), self.len) }
    }
}

impl DerefMut for SlotMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; in addition, `&mut self` makes this the only access.
        unsafe { std::slice::from_raw_parts_mut(self.region.start().as_ptr(), self.len) }
    }
}

impl fmt::Debug for SlotMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotMut({} bytes)", self.len)
    }
}

/// Shared, read-only bytes of a region. Cloning costs one atomic increment. The region counts as used memory
/// of its owner until the last clone or part is dropped.
#[derive(Clone)]
pub struct Slot {
    region: Arc<Region>,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a `Slot` is shared read access to bytes that no code writes, like an `Arc<[u8]>`. `Region` is Send
// and Sync.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

impl Slot {
    /// Makes a slot of a mapping that another process wrote. If `is_shared` is true, other readers use the
    /// same bytes, and the slot can never become exclusive. If `is_shared` is false, the slot can become
    /// exclusive ([`Slot::try_into_mut`]), like a slot of this process's own memory. `owner` gets the memory
    /// back after the last view is dropped.
    ///
    /// # Safety
    /// `start` must be 64-byte aligned and point to `len` (at most `isize::MAX`) bytes of initialized memory.
    /// The memory must be readable and, unless `is_shared`, writable. Before `owner` has the memory back, no
    /// other code of this process may access it, or with `is_shared`, write it. The mapping must outlive the
    /// slot, all its parts, and the use of the memory by `owner`.
    #[must_use]
    pub unsafe fn from_mapping(
        start: NonNull<u8>,
        len: usize,
        is_shared: bool,
        owner: Arc<dyn Reclaim>,
    ) -> Slot {
        // SAFETY: the caller promises the same, except for writes to shared memory. A region with
        // `Access::Shared` gives no code a way to write.
        let memory = unsafe { Memory::from_raw(start, len) };
        let access = if is_shared { Access::Shared } else { Access::Lent };
        let region = Arc::new(Region::of_mapping(memory, owner, access));
        Slot { region, start, len }
    }

    /// Returns whether another process can write these bytes, despite any promise. Bytes of a foreign slot
    /// that must not change between a check and their use must be copied first.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        match self.region.access() {
            Access::Ours => false,
            Access::Lent | Access::Shared => true,
        }
    }

    /// Returns whether other readers access the same bytes, so that no code may write them.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.region.access() == Access::Shared
    }

    /// Returns the address of the bytes, for code outside of Rust that reads them while it holds this slot.
    /// The code may write the bytes unless the slot [`is_shared`](Slot::is_shared), if from then on no other
    /// code reads them through any slot.
    #[must_use]
    #[inline]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// # Safety
    /// `range` must be inside the region, and no code may write its bytes while the slot or a clone of the
    /// slot lives.
    pub(super) unsafe fn of_region(region: Arc<Region>, range: Range<usize>) -> Slot {
        debug_assert!(range.start <= range.end && range.end <= region.size_bytes());
        // SAFETY: the caller promises that the range is inside the region.
        let start = unsafe { region.start().add(range.start) };
        Slot {
            region,
            start,
            len: range.len(),
        }
    }

    /// Returns a part of this slot. The part shares the memory, at the cost of one atomic increment.
    ///
    /// # Panics
    /// Panics if the range is not inside the slot.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Slot {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "range {range:?} of a slot of {}",
            self.len
        );
        // SAFETY: the range was just checked to be inside this slot, and so inside the region.
        let start = unsafe { self.start.add(range.start) };
        Slot {
            region: Arc::clone(&self.region),
            start,
            len: range.len(),
        }
    }

    /// Removes the first `n` bytes from the view, without an atomic operation.
    ///
    /// # Panics
    /// Panics if the slot is shorter than `n` bytes.
    pub fn advance(&mut self, n: usize) {
        assert!(n <= self.len, "advance {n} in a slot of {}", self.len);
        // SAFETY: `n` was just checked to be inside this slot.
        self.start = unsafe { self.start.add(n) };
        self.len -= n;
    }

    /// Keeps only the first `len` bytes of the view. Has no effect if the slot is shorter.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Converts the slot back into an exclusive slot. The conversion succeeds if the slot is the only view of
    /// its region and starts at the region's start.
    ///
    /// # Errors
    /// Returns the unchanged slot if other views share the region or may share it ([`Slot::from_mapping`]).
    pub fn try_into_mut(mut self) -> Result<SlotMut, Slot> {
        let whole = self.start == self.region.start() && !self.is_shared();
        if whole && Arc::get_mut(&mut self.region).is_some() {
            return Ok(SlotMut {
                region: self.region,
                len: self.len,
            });
        }
        Err(self)
    }
}

impl Deref for Slot {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: every constructor keeps `start .. start + len` inside the region, which lives as long as
        // `self` and is initialized. No code writes these bytes.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for Slot {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slot({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::region::SLOT_ALIGN;
    use crate::slot::{HeapAlloc, SlotAlloc};
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Reclaim for Counting {
        fn reclaim(&self, memory: Memory) {
            assert_eq!(memory.size_bytes(), 128);
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn memory_returns_once_with_the_last_view() {
        let owner = Arc::new(Counting::default());
        let memory = Memory::heap(128).unwrap();
        let slot = SlotMut::new(memory, 100, Some(Arc::clone(&owner) as Arc<dyn Reclaim>)).freeze();
        let part = slot.slice(10..20);
        drop(slot);
        assert_eq!((part.len(), owner.0.load(Ordering::Relaxed)), (10, 0));
        drop(part);
        assert_eq!(owner.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn fresh_slots_are_aligned_and_zeroed() {
        for size in [0, 1, 63, 64, 65, 4096, 100_000] {
            let slot = HeapAlloc.alloc(size).unwrap();
            assert_eq!(slot.len(), size);
            assert!(slot.as_ptr().addr().is_multiple_of(SLOT_ALIGN));
            assert!(slot.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn parts_show_the_same_bytes() {
        let mut slot = HeapAlloc.alloc(256).unwrap();
        slot.iter_mut()
            .zip(0..=255)
            .for_each(|(byte, value)| *byte = value);
        slot.truncate(200);
        let slot = slot.freeze();
        let mut part = slot.slice(50..150).slice(10..60);
        assert_eq!(part[..], slot[60..110]);
        part.advance(20);
        part.truncate(5);
        assert_eq!(part[..], slot[80..85]);
        assert_eq!(bytes::Bytes::from_owner(part), slot[80..85]);
    }

    #[test]
    fn only_a_sole_whole_view_becomes_exclusive() {
        let slot = HeapAlloc.alloc(64).unwrap().freeze();
        let other = slot.clone();
        let slot = slot.try_into_mut().unwrap_err();
        drop(other);
        let mut slot = slot.try_into_mut().unwrap();
        slot[0] = 7;
        let part = slot.freeze().slice(1..2);
        assert!(part.try_into_mut().is_err());
    }

    #[test]
    fn a_mappings_slot_stays_read_only() {
        let backing = HeapAlloc.alloc(128).unwrap().freeze();
        let owner = Arc::new(Counting::default());
        let start = NonNull::from(&backing[0]);
        // SAFETY: the backing slot is read only and outlives the slot that is made from it.
        let slot = unsafe { Slot::from_mapping(start, 128, true, Arc::clone(&owner) as Arc<dyn Reclaim>) };
        let slot = slot.try_into_mut().unwrap_err();
        let part = slot.slice(0..64);
        drop(slot);
        assert_eq!((part.len(), owner.0.load(Ordering::Relaxed)), (64, 0));
        drop(part);
        assert_eq!(owner.0.load(Ordering::Relaxed), 1);
    }

    #[test]
    #[should_panic(expected = "range")]
    fn slicing_beyond_the_end_panics() {
        let _ = HeapAlloc.alloc(64).unwrap().freeze().slice(60..65);
    }
}
