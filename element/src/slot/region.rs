//! A region: 64-byte aligned, initialized memory that finally returns to one owner. This file does not know
//! which code reads or writes the memory.
//!
//! Invariant: a `Memory` value is the only handle to its bytes, and a `Region` holds the same `Memory` for
//! its whole life.
#![expect(
    unsafe_code,
    reason = "aligned allocation, and memory handed in by shared and pinned allocators"
)]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

/// Alignment of every slot, and of every payload in a slot: the size of a cache line and of the widest vector
/// register.
pub const SLOT_ALIGN: usize = 64;

/// Size in bytes of the smallest page on any supported system.
const PAGE_BYTES: usize = 4096;

/// Exclusive ownership of 64-byte aligned, initialized bytes.
///
/// Heap memory is freed on drop. Memory made by [`Memory::from_raw`] is not freed; its [`Reclaim`] decides
/// what happens to it.
pub struct Memory {
    start: NonNull<u8>,
    size_bytes: usize,
    on_heap: bool,
}

// SAFETY: a `Memory` exclusively owns plain bytes, like a `Box<[u8]>`. The contract of `from_raw` demands
// exclusive ownership too.
unsafe impl Send for Memory {}
// SAFETY: a shared `Memory` exposes only its address and size.
unsafe impl Sync for Memory {}

impl Memory {
    /// Allocates zeroed heap memory; returns `None` if the system has none left. A size of 0 takes no memory.
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
            // Gives each page its own physical memory. Until the first write, fresh pages all map the
            // kernel's single zero page, and one physical page that is read under many addresses is slow.
            //
            // SAFETY: the byte is inside the new allocation, which no other code can access yet. Writing zero
            // keeps the content.
            unsafe { start.add(page).write_volatile(0) };
        }
        Some(Memory {
            start,
            size_bytes,
            on_heap: true,
        })
    }

    /// Wraps memory from outside the heap, such as a shared or pinned mapping.
    ///
    /// # Safety
    /// `start` must be 64-byte aligned and point to `size_bytes` (at most `isize::MAX`) of initialized
    /// memory, which must be readable and writable. No other code of this process may access the memory until
    /// the value is dropped. The mapping must outlive the value.
    #[must_use]
    pub unsafe fn from_raw(start: NonNull<u8>, size_bytes: usize) -> Memory {
        debug_assert!(start.as_ptr().addr().is_multiple_of(SLOT_ALIGN));
        Memory {
            start,
            size_bytes,
            on_heap: false,
        }
    }

    /// Returns the size of the memory in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Returns the address of the first byte, as passed to [`Memory::from_raw`].
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.on_heap {
            // SAFETY: `heap` allocated this memory with this size and alignment, and checked both. No other
            // code frees the memory.
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

/// The receiver of memory after the last slot that uses the memory was dropped.
///
/// The receiver is called on the thread that dropped the last slot. The receiver must return quickly and must
/// not block.
pub trait Reclaim: Send + Sync {
    /// Takes the memory back. The bytes are unchanged since their last use.
    fn reclaim(&self, memory: Memory);
}

/// Memory that is in use by slots.
pub(crate) struct Region {
    memory: ManuallyDrop<Memory>,
    owner: Option<Arc<dyn Reclaim>>,
    access: Access,
}

/// The access to the memory that exists besides the access of its one owner in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Only the owner has access.
    Ours,
    /// Another process is able to write the memory, but has promised not to write it.
    Lent,
    /// Other readers access the same bytes under other addresses or in other slots, so no code may write
    /// them.
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
        // SAFETY: the region is being dropped, so its memory is taken once and not accessed again.
        let memory = unsafe { ManuallyDrop::take(&mut self.memory) };
        match &self.owner {
            Some(owner) => owner.reclaim(memory),
            None => drop(memory),
        }
    }
}

/// Returns an aligned address for regions without bytes.
fn dangling() -> NonNull<u8> {
    NonNull::<Line>::dangling().cast()
}

/// A type that only provides an alignment of 64 bytes.
#[repr(align(64))]
struct Line;

const _: () = assert!(align_of::<Line>() == SLOT_ALIGN);
