//! A worker's side of a task's shared memory: an allocator of slots.
//!
//! Producers write elements directly into the arena. Readers of the same host map the same memory and receive
//! offsets. The list of free pages is in private memory, so that no reader can corrupt it. The arena does not
//! know its readers.
//!
//! Invariant: slots in use never overlap, and the pages hold memory only within the worker's budget.
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

/// Maximum number of idle pages that return to the system while the lock is held, 4 MiB. Returning them takes
/// about a millisecond, for which an allocation may have to wait.
const GIVE_BACK_PAGES: u32 = 1024;

/// The smallest size of huge pages, in bytes. The size of an arena with huge pages is rounded up to a
/// multiple of this size.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The identifier of an arena, unique within the worker's process and never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArenaId(pub u64);

/// The kind of an arena's pages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageKind {
    /// Pages of 4 KiB, taken from the system when needed and returned when idle.
    Small,
    /// Pages of 4 KiB, used because the requested huge pages were not available.
    SmallInstead {
        /// The reason why no huge pages are available.
        why: String,
    },
    /// Huge pages, all taken from the system when the arena was made.
    Huge,
}

/// The memory of a task that readers of the same host share.
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
    /// Makes an arena of `size_bytes`, rounded up to whole pages. The arena reserves addresses only. Memory
    /// is taken, and charged to `budget`, when slots need it.
    ///
    /// With `wants_huge_pages`, all huge pages are taken and charged at once. If no huge pages are available,
    /// the arena has small pages, and [`Arena::kind`] states the reason.
    ///
    /// # Errors
    /// Returns the system's error if no descriptor or no addresses are left, or if the size is not possible.
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

    /// Returns the identifier of the arena.
    #[must_use]
    pub fn id(&self) -> ArenaId {
        self.shared.id
    }

    /// Returns the descriptor by which other processes map the arena. A process with the descriptor can read
    /// and write the whole arena.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.shared.fd.as_fd()
    }

    /// Returns the size of the arena, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.shared.mapping.size_bytes()
    }

    /// Returns the number of readers that share the arena now.
    pub(super) fn readers(&self) -> &AtomicUsize {
        &self.shared.readers
    }

    /// Returns the kind of the pages, with the reason if huge pages were requested but not available.
    #[must_use]
    pub fn kind(&self) -> &PageKind {
        &self.shared.kind
    }

    /// Returns the bytes of pages in use by slots.
    #[must_use]
    pub fn in_use_bytes(&self) -> usize {
        self.shared.pages.lock().in_use_pages() as usize * PAGE_BYTES
    }

    /// Returns the bytes of pages that hold memory: pages in use and idle pages that are kept for later use.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.shared.pages.lock().resident_pages() as usize * PAGE_BYTES
    }

    /// Returns the offset in the arena of a slot, or of a part of a slot. Returns `None` for slots outside
    /// the arena, and for an empty part at the arena's end: another mapping may begin there.
    #[must_use]
    pub fn offset_of(&self, slot: &Slot) -> Option<u64> {
        let start = self.shared.mapping.start().addr().get();
        let offset = slot.as_ptr().addr().checked_sub(start)?;
        let is_within = offset < self.size_bytes() && offset + slot.len() <= self.size_bytes();
        is_within.then_some(offset as u64)
    }

    /// Returns idle pages to the system if fewer than half of the pages with memory were in use at every time
    /// since the last call. The caller should call every few seconds. Pages that a task needs again and again
    /// stay; pages needed only once are returned.
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
    /// Reserves a slot, with the errors of [`SlotAlloc::alloc`]. Returns [`AllocError::TooLarge`] if the slot
    /// cannot fit an empty arena or the worker's budget. Returns [`AllocError::Exhausted`] if the arena or
    /// the budget has no room now.
    ///
    /// Fresh pages are taken from the system here, not by the first write. A first write to a page without
    /// memory would cost a page fault, and a system without free memory would send a signal.
    ///
    /// A fresh page costs 2.6 µs on a virtual machine with two cores, which is 1.5 GiB/s. A reader's first
    /// access costs another 0.4 µs for each page. Pages that already hold memory cost nothing, and a task
    /// soon uses only such pages.
    fn alloc(&self, size_bytes: usize) -> Result<SlotMut, AllocError> {
        let shared = &self.shared;
        if size_bytes > self.largest_bytes() {
            return Err(AllocError::TooLarge {
                size_bytes,
                limit_bytes: self.largest_bytes(),
            });
        }
        // An empty slot has an address too, so it takes one page.
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
        // SAFETY: the run is inside the mapping, because `pages` has as many pages as the mapping. The
        // mapping is initialised and page-aligned, and the slot's owner keeps the mapping alive. The run is
        // used by no other slot until `reclaim` frees it, and no words of the mapping are viewed.
        let memory = unsafe {
            let start = shared.mapping.start().add(run.start as usize * PAGE_BYTES);
            Memory::from_raw(start, run.len() * PAGE_BYTES)
        };
        let owner: Arc<dyn Reclaim> = shared.clone();
        Ok(SlotMut::new(memory, size_bytes, Some(owner)))
    }
}

impl Arena {
    /// Returns the size of the largest possible slot, in bytes.
    fn largest_bytes(&self) -> usize {
        let page_count = (self.size_bytes() / PAGE_BYTES) as u32;
        let longest = Pages::longest(page_count) as usize * PAGE_BYTES;
        let budget_bytes = self.shared.budget.limit_bytes() / PAGE_BYTES * PAGE_BYTES;
        longest.min(budget_bytes).min(MAX_SLOT_BYTES)
    }
}

impl Shared {
    /// Takes memory for those pages of a run in use that hold none. Frees the run on failure.
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
            // `fallocate` takes the memory, but leaves the page faults to the first write.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                rustix::fs::fallocate(&self.fd, FallocateFlags::empty(), offset, len).map_err(io::Error::from)
            }
            populated => populated,
        };
        if populated.is_err() {
            // The hole also releases the pages that the system provided before it failed.
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

    /// Returns the memory of unused pages to the system; the pages then read as zeroes. Returns false if the
    /// system refuses.
    fn punch(&self, run: &Range<u32>) -> bool {
        let (offset, len) = bytes_of(run);
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&self.fd, hole, offset, len).is_ok()
    }
}

impl GiveBack for Shared {
    fn give_back(&self) {
        // Huge pages are reserved as a whole. A huge page that was returned may not be available later.
        if self.kind == PageKind::Huge {
            return;
        }
        let mut from = 0;
        loop {
            // The lock prevents that a page is handed out before its memory is returned.
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

/// The name of the mapping in lists of a process's mappings.
const NAME: &str = "millstream-arena";

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Creates and charges a mapping of huge pages. Returns the reason as text if the system or the budget cannot
/// provide them.
fn huge(size_bytes: usize, budget: &ArenaBudget) -> Result<(OwnedFd, Mapping), String> {
    let size_bytes = size_bytes
        .checked_next_multiple_of(HUGE_PAGE_BYTES)
        .unwrap_or(usize::MAX);
    if !budget.charge(size_bytes) {
        let limit_bytes = budget.limit_bytes();
        return Err(format!(
            "{size_bytes} bytes of huge pages are reserved as a whole and exceed the worker's limit for shared memory \
             ({limit_bytes} bytes)"
        ));
    }
    Mapping::create_huge(NAME, size_bytes).map_err(|error| {
        budget.discharge(size_bytes);
        format!("the system cannot provide {size_bytes} bytes of huge pages: {error}")
    })
}

/// Returns the offset and the length of a run, in bytes.
fn bytes_of(run: &Range<u32>) -> (u64, u64) {
    let page_bytes = PAGE_BYTES as u64;
    (u64::from(run.start) * page_bytes, run.len() as u64 * page_bytes)
}
