//! A worker's side of a task's shared memory: an allocator of slots in it.
//!
//! Producers write elements straight into it, readers of the same host map the same memory and are told
//! offsets. What is free is known in private memory alone, so that no reader can mislead it. Refuses to know
//! who reads.
//!
//! Invariant: slots in use never overlap, and pages hold memory only as the worker's budget allows.
#![expect(unsafe_code, reason = "slots in a mapping")]

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use millstream_element::{AllocError, MAX_SLOT_BYTES, Memory, Reclaim, Slot, SlotAlloc, SlotMut};
use parking_lot::Mutex;
use rustix::fs::FallocateFlags;

use super::budget::{ArenaBudget, GiveBack};
use super::map::{Mapping, PAGE_BYTES};
use super::pages::Pages;

/// Idle pages that go back to the system under one hold of the lock, 4 MiB: about a millisecond, which an
/// allocation may wait.
const GIVE_BACK_PAGES: u32 = 1024;

/// The smallest of huge pages, to which the size of an arena of them is rounded.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Names an arena within its worker's process; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArenaId(pub u64);

/// The pages of an arena.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageKind {
    /// Pages of 4 KiB, taken as they are needed and given back when they are not.
    Small,
    /// Pages of 4 KiB, though huge ones were asked for.
    SmallInstead {
        /// Why there are none.
        why: String,
    },
    /// Huge ones, all of them taken when the arena was made.
    Huge,
}

/// Memory of a task that readers of the same host share.
pub struct Arena {
    shared: Arc<Shared>,
}

struct Shared {
    id: ArenaId,
    fd: OwnedFd,
    mapping: Mapping,
    kind: PageKind,
    budget: ArenaBudget,
    pages: Mutex<Pages>,
    readers: AtomicUsize,
}

impl Arena {
    /// An arena of `size_bytes`, rounded up to whole pages. It takes addresses; memory is taken and charged
    /// to `budget` as slots need it, unless `wants_huge_pages`, which are taken and charged at once. Where
    /// there are none it has small ones, and says why ([`Arena::kind`]).
    ///
    /// # Errors
    /// What the system said: no descriptor or no addresses are left, or the size is not possible.
    pub fn new(size_bytes: usize, wants_huge_pages: bool, budget: &ArenaBudget) -> io::Result<Arena> {
        let huge = wants_huge_pages.then(|| huge(size_bytes, budget));
        let (kind, fd, mapping) = match huge {
            Some(Ok((fd, mapping))) => (PageKind::Huge, fd, mapping),
            not_huge => {
                let why = not_huge.and_then(Result::err);
                let kind = why.map_or(PageKind::Small, |why| PageKind::SmallInstead { why });
                let size_bytes = size_bytes.checked_next_multiple_of(PAGE_BYTES);
                let (fd, mapping) = Mapping::create(NAME, size_bytes.unwrap_or(usize::MAX))?;
                (kind, fd, mapping)
            }
        };
        // A mapping is 2^28 pages long at most.
        let page_count = (mapping.size_bytes() / PAGE_BYTES) as u32;
        let mut pages = Pages::new(page_count);
        if kind == PageKind::Huge {
            pages.note_resident(0..page_count);
        }
        let shared = Arc::new(Shared {
            id: ArenaId(NEXT_ID.fetch_add(1, Ordering::Relaxed)),
            fd,
            mapping,
            kind,
            budget: budget.clone(),
            pages: Mutex::new(pages),
            readers: AtomicUsize::new(0),
        });
        let entry: Arc<dyn GiveBack> = shared.clone();
        budget.enter(Arc::downgrade(&entry));
        Ok(Arena { shared })
    }

    /// The name.
    #[must_use]
    pub fn id(&self) -> ArenaId {
        self.shared.id
    }

    /// The descriptor by which others map it: who has it can read and write everything in it.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.shared.fd.as_fd()
    }

    /// The size, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.shared.mapping.size_bytes()
    }

    /// Readers that share it now.
    pub(super) fn readers(&self) -> &AtomicUsize {
        &self.shared.readers
    }

    /// The pages, and why they are not huge if they were to be.
    #[must_use]
    pub fn kind(&self) -> &PageKind {
        &self.shared.kind
    }

    /// Bytes of pages in use by slots.
    #[must_use]
    pub fn in_use_bytes(&self) -> usize {
        self.shared.pages.lock().in_use_pages() as usize * PAGE_BYTES
    }

    /// Bytes of pages that hold memory, those in use and those that are kept to be used again.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.shared.pages.lock().resident_pages() as usize * PAGE_BYTES
    }

    /// Returns the offset of a slot, or of a part of one, in the arena; `None` for slots from elsewhere.
    #[must_use]
    pub fn offset_of(&self, slot: &Slot) -> Option<u64> {
        let start = self.shared.mapping.start().addr().get();
        let offset = slot.as_ptr().addr().checked_sub(start)?;
        (offset + slot.len() <= self.size_bytes()).then_some(offset as u64)
    }

    /// Returns idle pages to the system if fewer than half of the pages with memory were ever in use since
    /// the last call. To be called every few seconds: what a task needs again and again stays, what it needed
    /// once goes.
    pub fn give_back_if_idle(&self) {
        let mut pages = self.shared.pages.lock();
        let is_idle = pages.restart_peak() < pages.resident_pages() / 2;
        drop(pages);
        if is_idle {
            self.shared.give_back();
        }
    }
}

impl SlotAlloc for Arena {
    /// Reserves a slot, as [`Arena::alloc`] promises: [`AllocError::TooLarge`] if it fits neither an empty
    /// arena nor the worker's budget, [`AllocError::Exhausted`] if the arena or the budget has no room now.
    ///
    /// Fresh pages are taken from the system here. On their first write, each page would cost a fault, and a
    /// system without memory would send a signal. They are expensive: 2.6 µs each on a virtual machine of two
    /// cores, which is 1.5 GiB a second. A reader's first look at each takes another 0.4 µs; pages that hold
    /// memory cost nothing again. So a task soon goes round in what it once took.
    fn alloc(&self, size_bytes: usize) -> Result<SlotMut, AllocError> {
        let shared = &self.shared;
        if size_bytes > self.largest_bytes() {
            return Err(AllocError::TooLarge {
                size_bytes,
                limit_bytes: self.largest_bytes(),
            });
        }
        // An empty slot has an address too.
        let page_count = size_bytes.div_ceil(PAGE_BYTES).max(1) as u32;
        let mut pages = shared.pages.lock();
        let Some(run) = pages.alloc(page_count) else {
            return Err(AllocError::Exhausted {
                size_bytes,
                in_use_bytes: pages.in_use_pages() as usize * PAGE_BYTES,
                budget_bytes: self.size_bytes(),
            });
        };
        let absent = pages.absent(run.clone());
        drop(pages);
        if absent > 0 {
            shared.bring_in(run.clone(), absent as usize * PAGE_BYTES, size_bytes)?;
        }
        // SAFETY: the run lies in the mapping (`pages` has as many pages), which is initialised and
        // page-aligned, and lives as long as the slot's owner. The run is nobody else's until `reclaim` gives
        // it back; no words of the mapping are viewed.
        let memory = unsafe {
            let start = shared.mapping.start().add(run.start as usize * PAGE_BYTES);
            Memory::from_raw(start, run.len() * PAGE_BYTES)
        };
        let owner: Arc<dyn Reclaim> = shared.clone();
        Ok(SlotMut::new(memory, size_bytes, Some(owner)))
    }
}

impl Arena {
    /// The largest slot, in bytes.
    fn largest_bytes(&self) -> usize {
        let page_count = (self.size_bytes() / PAGE_BYTES) as u32;
        let longest = Pages::longest(page_count) as usize * PAGE_BYTES;
        let budget_bytes = self.shared.budget.limit_bytes() / PAGE_BYTES * PAGE_BYTES;
        longest.min(budget_bytes).min(MAX_SLOT_BYTES)
    }
}

impl Shared {
    /// Takes memory for the pages of a run in use that have none, or gives the run back.
    fn bring_in(&self, run: Range<u32>, absent_bytes: usize, size_bytes: usize) -> Result<(), AllocError> {
        if !self.budget.charge(absent_bytes) {
            self.pages.lock().free(run);
            return Err(AllocError::Exhausted {
                size_bytes,
                in_use_bytes: self.budget.held_bytes(),
                budget_bytes: self.budget.limit_bytes(),
            });
        }
        let (offset, len) = bytes_of(&run);
        let populated = match self.mapping.populate(offset, len) {
            // Takes the memory, and leaves the faults to who writes first.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                rustix::fs::fallocate(&self.fd, FallocateFlags::empty(), offset, len).map_err(io::Error::from)
            }
            populated => populated,
        };
        if populated.is_err() {
            // With it goes what came in before the system had no more.
            self.punch(&run);
            let mut pages = self.pages.lock();
            pages.note_absent(run.clone());
            pages.free(run);
            drop(pages);
            self.budget.discharge(len as usize);
            return Err(AllocError::OutOfMemory { size_bytes });
        }
        self.pages.lock().note_resident(run);
        Ok(())
    }

    /// Gives the memory of pages that nobody uses back to the system; they read as zeroes from then on. False
    /// if it does not take it.
    fn punch(&self, run: &Range<u32>) -> bool {
        let (offset, len) = bytes_of(run);
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&self.fd, hole, offset, len).is_ok()
    }
}

impl GiveBack for Shared {
    fn give_back(&self) {
        // Huge pages are reserved as a whole; one that was given back may not be there when it is needed
        // again.
        if self.kind == PageKind::Huge {
            return;
        }
        let mut from = 0;
        loop {
            // Under the lock, so that no page is handed out before its memory is gone.
            let mut pages = self.pages.lock();
            let Some(run) = pages.idle(from, GIVE_BACK_PAGES).filter(|run| self.punch(run)) else {
                return;
            };
            pages.note_absent(run.clone());
            drop(pages);
            self.budget.discharge(run.len() * PAGE_BYTES);
            from = run.end;
        }
    }
}

impl Reclaim for Shared {
    fn reclaim(&self, memory: Memory) {
        let offset = memory.start().addr().get() - self.mapping.start().addr().get();
        let first = (offset / PAGE_BYTES) as u32;
        let count = (memory.size_bytes() / PAGE_BYTES) as u32;
        self.pages.lock().free(first..first + count);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let held = self.pages.get_mut().resident_pages() as usize * PAGE_BYTES;
        self.budget.discharge(held);
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (in_use_bytes, size_bytes) = (self.in_use_bytes(), self.size_bytes());
        write!(
            f,
            "Arena({}: {in_use_bytes} of {size_bytes} bytes)",
            self.shared.id.0
        )
    }
}

/// The name that people see who list the mappings of a process.
const NAME: &str = "millstream-arena";

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Memory of huge pages, charged as a whole; else why not.
fn huge(size_bytes: usize, budget: &ArenaBudget) -> Result<(OwnedFd, Mapping), String> {
    let size_bytes = size_bytes
        .checked_next_multiple_of(HUGE_PAGE_BYTES)
        .unwrap_or(usize::MAX);
    if !budget.charge(size_bytes) {
        let limit_bytes = budget.limit_bytes();
        return Err(format!(
            "{size_bytes} bytes of huge pages are taken as a whole, and exceed what the worker has for shared memory \
             ({limit_bytes} bytes)"
        ));
    }
    Mapping::create_huge(NAME, size_bytes).map_err(|error| {
        budget.discharge(size_bytes);
        format!("the system has no {size_bytes} bytes of huge pages to give: {error}")
    })
}

/// Returns the offset and the length of a run.
fn bytes_of(run: &Range<u32>) -> (u64, u64) {
    let page_bytes = PAGE_BYTES as u64;
    (u64::from(run.start) * page_bytes, run.len() as u64 * page_bytes)
}
