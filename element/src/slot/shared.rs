//! `SlotMut`, exclusive, and `Slot`, shared and read only: the two ways to hold bytes of a region.
//!
//! Invariant: bytes that a `Slot` covers are written by nobody in this process while it lives. Refuses to
//! know what the bytes mean.
#![expect(
    unsafe_code,
    reason = "views into a region by address, so that reading one follows no second pointer"
)]

use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;

use super::region::{Access, Memory, Reclaim, Region};

/// Exclusive use of a slot: 64-byte aligned, initialised, not necessarily zeroed (a pool reuses memory).
pub struct SlotMut {
    /// Never cloned while this value lives.
    region: Arc<Region>,
    len: usize,
}

impl SlotMut {
    /// A slot of the first `len` bytes of `memory`; when its last view is dropped the memory goes to `owner`,
    /// or is dropped where there is none. A `len` beyond the memory is cut to it.
    #[must_use]
    pub fn new(memory: Memory, len: usize, owner: Option<Arc<dyn Reclaim>>) -> SlotMut {
        let len = len.min(memory.size_bytes());
        SlotMut {
            region: Arc::new(Region::new(memory, owner)),
            len,
        }
    }

    /// Ends writing: the slot becomes shareable and read only.
    #[must_use]
    pub fn freeze(self) -> Slot {
        let start = self.region.start();
        Slot {
            region: self.region,
            start,
            len: self.len,
        }
    }

    /// Keeps the first `len` bytes; no effect when the slot is shorter.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// The memory, and how many of its bytes the slot has.
    pub(super) fn into_region(self) -> (Arc<Region>, usize) {
        (self.region, self.len)
    }
}

impl Deref for SlotMut {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes from the start lie in the region and are initialised; `region` is not shared,
        // so the only writer is behind `&mut self`.
        unsafe { std::slice::from_raw_parts(self.region.start().as_ptr(), self.len) }
    }
}

impl DerefMut for SlotMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes this the only access.
        unsafe { std::slice::from_raw_parts_mut(self.region.start().as_ptr(), self.len) }
    }
}

impl fmt::Debug for SlotMut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotMut({} bytes)", self.len)
    }
}

/// Shared, read-only bytes of a region. Cloning is one atomic increment; the region is charged to its owner
/// until the last clone or part is dropped.
#[derive(Clone)]
pub struct Slot {
    region: Arc<Region>,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a `Slot` is shared read access to bytes that nobody writes, as an `Arc<[u8]>` is; `Region` is Send
// and Sync.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

impl Slot {
    /// Bytes of a mapping that another process wrote. A slot that `is_shared` with other readers never
    /// becomes exclusive again; any other can, as a slot of this process's own memory does
    /// ([`Slot::try_into_mut`]). `owner` gets the memory back with the last view of it.
    ///
    /// # Safety
    /// `start` is 64-byte aligned and begins `len` (at most `isize::MAX`) bytes of initialised memory,
    /// readable and, unless `is_shared`, writable. Nothing else in this process touches it (unless
    /// `is_shared`: writes) before `owner` has it back; the mapping outlives the slot, all parts of it, and
    /// what `owner` does with the memory.
    #[must_use]
    pub unsafe fn from_mapping(
        start: NonNull<u8>,
        len: usize,
        is_shared: bool,
        owner: Arc<dyn Reclaim>,
    ) -> Slot {
        // SAFETY: as the caller promises, but for writing what is shared: such a region gives nobody the
        // means.
        let memory = unsafe { Memory::from_raw(start, len) };
        let access = if is_shared { Access::Shared } else { Access::Lent };
        let region = Arc::new(Region::of_mapping(memory, owner, access));
        Slot { region, start, len }
    }

    /// Returns whether another process can write these bytes, whatever it promised: what must not change
    /// between being checked and being used is copied first.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        match self.region.access() {
            Access::Ours => false,
            Access::Lent | Access::Shared => true,
        }
    }

    /// Returns whether others read the same bytes, so that nobody may ever write them.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.region.access() == Access::Shared
    }

    /// Returns the address of the bytes, for code outside of Rust that looks at them while it holds this
    /// slot. The code may write them if they are not [`Slot::is_shared`] and nothing else reads them from
    /// then on, through this slot or another.
    #[must_use]
    #[inline]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// # Safety
    /// `range` lies in the region, and nobody writes those bytes while the slot or a clone of it lives.
    pub(super) unsafe fn of_region(region: Arc<Region>, range: Range<usize>) -> Slot {
        debug_assert!(range.start <= range.end && range.end <= region.size_bytes());
        // SAFETY: the caller promises that the range lies in the region.
        let start = unsafe { region.start().add(range.start) };
        Slot {
            region,
            start,
            len: range.len(),
        }
    }

    /// A part of this slot, sharing its memory: one atomic increment.
    ///
    /// # Panics
    /// When the range does not lie in the slot, as slicing does.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Slot {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "range {range:?} of a slot of {}",
            self.len
        );
        // SAFETY: the range was just checked to lie in this slot, hence in the region.
        let start = unsafe { self.start.add(range.start) };
        Slot {
            region: Arc::clone(&self.region),
            start,
            len: range.len(),
        }
    }

    /// Drops the first `n` bytes from the view; no atomic operation.
    ///
    /// # Panics
    /// When the slot is shorter, as slicing does.
    pub fn advance(&mut self, n: usize) {
        assert!(n <= self.len, "advance {n} in a slot of {}", self.len);
        // SAFETY: `n` was just checked to lie in this slot.
        self.start = unsafe { self.start.add(n) };
        self.len -= n;
    }

    /// Keeps the first `len` bytes of the view; no effect when the slot is shorter.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// The exclusive slot again, when this is the only view left and it starts where the region does; else
    /// itself.
    ///
    /// # Errors
    /// The slot unchanged, when others share the region, or may ([`Slot::from_mapping`]).
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
        // `self`, is initialised, and has no writer for these bytes.
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
        // SAFETY: the backing slot is read only and outlives the one made of it.
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
