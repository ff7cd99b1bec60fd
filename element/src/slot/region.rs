//! A region: 64-byte aligned, initialised memory with one owner to go back to. Refuses to know who reads or
//! writes it.
//!
//! Invariant: a `Memory` value is the only handle to its bytes, and a `Region` holds exactly one `Memory` all
//! its life.
#![expect(
    unsafe_code,
    reason = "aligned allocation, and memory handed in by shared and pinned allocators"
)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

/// Alignment of every slot and of every payload in it: one cache line, and the widest vector register.
pub const SLOT_ALIGN: usize = 64;

/// The smallest page of a system this runs on.
const PAGE_BYTES: usize = 4096;

/// Exclusive ownership of 64-byte aligned, initialised bytes.
///
/// Heap memory is freed on drop; memory made by [`Memory::from_raw`] is left to the [`Reclaim`] it goes back
/// to.
pub struct Memory {
    start: NonNull<u8>,
    size_bytes: usize,
    on_heap: bool,
}

// SAFETY: a `Memory` is exclusive ownership of plain bytes, as a `Box<[u8]>` is; `from_raw` asks for the
// same.
unsafe impl Send for Memory {}
// SAFETY: a shared `Memory` gives out only its address and size.
unsafe impl Sync for Memory {}

impl Memory {
    /// Zeroed heap memory, or `None` when the system has none to give. A size of 0 takes no memory.
    #[must_use]
    pub fn heap(size_bytes: usize) -> Option<Memory> {
        let layout = Layout::from_size_align(size_bytes, SLOT_ALIGN).ok()?;
        if size_bytes == 0 {
            return Some(Memory {
                start: dangling(),
                size_bytes,
                on_heap: false,
            });
        }
        // SAFETY: the layout has a size above 0.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        for page in (0..size_bytes).step_by(PAGE_BYTES) {
            // Makes each page a page of its own. Until they are written, fresh pages all show the kernel's
            // one page of zeroes. Memory that is read under many addresses at once is slow. SAFETY: the byte
            // lies within the allocation, which nobody else has yet; a zero is there already.
            unsafe { start.add(page).write_volatile(0) };
        }
        Some(Memory {
            start,
            size_bytes,
            on_heap: true,
        })
    }

    /// Memory from elsewhere, such as a shared or pinned mapping.
    ///
    /// # Safety
    /// `start` is 64-byte aligned and begins `size_bytes` (at most `isize::MAX`) of initialised memory,
    /// readable and writable. Nothing else in this process touches it until the value is dropped; the mapping
    /// outlives the value.
    #[must_use]
    pub unsafe fn from_raw(start: NonNull<u8>, size_bytes: usize) -> Memory {
        debug_assert!(start.as_ptr().addr().is_multiple_of(SLOT_ALIGN));
        Memory {
            start,
            size_bytes,
            on_heap: false,
        }
    }

    /// Bytes of memory.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// The first byte, as given to [`Memory::from_raw`].
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.on_heap {
            // SAFETY: `heap` allocated this memory with this size and alignment (checked there), and nobody
            // else frees it.
            unsafe {
                let layout = Layout::from_size_align_unchecked(self.size_bytes, SLOT_ALIGN);
                dealloc(self.start.as_ptr(), layout);
            }
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({} bytes)", self.size_bytes)
    }
}

/// The receiver of memory when the last slot that uses it is dropped.
///
/// It is called on the thread that dropped last, must be quick and must not block.
pub trait Reclaim: Send + Sync {
    /// Takes the memory back. Its bytes are as the last user left them.
    fn reclaim(&self, memory: Memory);
}

/// Memory in use by slots.
pub(crate) struct Region {
    memory: ManuallyDrop<Memory>,
    owner: Option<Arc<dyn Reclaim>>,
    access: Access,
}

/// The access that others have to the memory besides its one owner in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// The owner alone has access.
    Ours,
    /// Another process, which promised not to.
    Lent,
    /// Others read the same bytes under other addresses or in other slots, so nobody ever writes here.
    Shared,
}

impl Region {
    pub(crate) fn new(memory: Memory, owner: Option<Arc<dyn Reclaim>>) -> Region {
        Region {
            memory: ManuallyDrop::new(memory),
            owner,
            access: Access::Ours,
        }
    }

    pub(crate) fn of_mapping(memory: Memory, owner: Arc<dyn Reclaim>, access: Access) -> Region {
        Region {
            memory: ManuallyDrop::new(memory),
            owner: Some(owner),
            access,
        }
    }

    pub(crate) fn access(&self) -> Access {
        self.access
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.memory.start
    }

    pub(crate) fn size_bytes(&self) -> usize {
        self.memory.size_bytes
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the region is being dropped, so its memory is taken once and not touched again.
        let memory = unsafe { ManuallyDrop::take(&mut self.memory) };
        match &self.owner {
            Some(owner) => owner.reclaim(memory),
            None => drop(memory),
        }
    }
}

/// An aligned address for regions of no bytes.
fn dangling() -> NonNull<u8> {
    NonNull::<Line>::dangling().cast()
}

/// Only its alignment matters.
#[repr(align(64))]
struct Line;

const _: () = assert!(align_of::<Line>() == SLOT_ALIGN);
