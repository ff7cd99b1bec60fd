//! Memory behind a descriptor, mapped into this process. The memory is created and sealed here, or received
//! from a peer and checked before mapping.
//!
//! Invariant: a mapping covers exactly a file that can neither shrink nor grow, so no access to it can fault.
//! The contents of the memory, and their writers, are unknown to this module.
#![expect(
    unsafe_code,
    reason = "mapping memory, and viewing it as words that processes share"
)]

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use thiserror::Error;

use crate::transport::LinkLost;

/// The smallest page size of the supported systems, in bytes. The size of a mapping must be a multiple of
/// this size.
pub const PAGE_BYTES: usize = 4096;

/// Maximum size of a mapping, 1 TiB in bytes. The addresses of a process have room for about a hundred such
/// mappings. An announcement by a peer costs only addresses.
pub const MAPPING_BYTES_MAX: usize = 1 << 40;

/// The seals against shrinking and growing the file, and against further seals. Without the last seal, a peer
/// could forbid mapping the file for writing.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// The reason for which a peer's descriptor is not mapped. The peer is at fault, except for `System`.
#[derive(Debug, Error)]
pub enum MapError {
    /// The descriptor is not a memory file, or the file lacks a seal.
    #[error(
        "the peer's shared memory is not sealed against {missing}: expected a sealed file, which cannot be taken away while it \
         is in use"
    )]
    Unsealed {
        /// The missing seal.
        missing: &'static str,
    },
    /// The size of the file differs from the announced size.
    #[error(
        "expected {announced_bytes} bytes of shared memory as announced by the peer, found {found_bytes} bytes"
    )]
    Size {
        /// The size that the peer announced, in bytes.
        announced_bytes: u64,
        /// The size of the file, in bytes.
        found_bytes: u64,
    },
    /// The announced size is not possible for a mapping.
    #[error(
        "expected at most {MAPPING_BYTES_MAX} bytes of shared memory, in whole pages of {PAGE_BYTES} bytes, found an announcement \
         of {announced_bytes} bytes by the peer"
    )]
    Announced {
        /// The size that the peer announced, in bytes.
        announced_bytes: u64,
    },
    /// The system refused to examine or map the file.
    #[error("shared memory cannot be {doing}: {source}")]
    System {
        /// The operation that failed.
        doing: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

impl From<MapError> for LinkLost {
    fn from(error: MapError) -> Self {
        let reason = error.to_string();
        match error {
            MapError::Unsealed { .. } | MapError::Size { .. } | MapError::Announced { .. } => {
                Self::Misbehaved(reason)
            }
            MapError::System { .. } => Self::Resource(reason),
        }
    }
}

/// Shared memory of a sealed file, which every process that mapped it can read and write. Dropping the value
/// unmaps the memory.
///
/// Other processes may change any byte at any moment. Words that several sides write at once are viewed with
/// [`Mapping::words`]. All other memory is handed from side to side as a whole, and the side that handed it
/// over does not touch it.
pub struct Mapping {
    start: NonNull<u8>,
    size_bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and its only owner unmaps it once.
unsafe impl Send for Mapping {}
// SAFETY: a shared mapping gives access to atomic words and addresses only.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Creates zeroed memory of `size_bytes`, which must be a positive multiple of [`PAGE_BYTES`]. Returns
    /// the mapping, and the descriptor by which other processes can map the memory.
    ///
    /// The system provides memory page by page, as it is written. `name` appears in the system's list of
    /// mappings.
    ///
    /// # Errors
    /// Returns the system's error, or `InvalidInput` if the size is not possible.
    pub fn create(name: &str, size_bytes: usize) -> io::Result<(OwnedFd, Mapping)> {
        Self::create_with(name, size_bytes, MemfdFlags::empty())
    }

    /// Creates a mapping like [`Mapping::create`], but of huge pages of the system's default size. All pages
    /// are reserved at once.
    ///
    /// # Errors
    /// Returns the errors of [`Mapping::create`]. Most systems reserve no huge pages, and `size_bytes` must
    /// be a multiple of the size of huge pages.
    pub fn create_huge(name: &str, size_bytes: usize) -> io::Result<(OwnedFd, Mapping)> {
        Self::create_with(name, size_bytes, MemfdFlags::HUGETLB)
    }

    fn create_with(name: &str, size_bytes: usize, kind: MemfdFlags) -> io::Result<(OwnedFd, Mapping)> {
        if !is_possible(size_bytes) {
            let message = format!("invalid size of shared memory: {size_bytes} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | kind;
        // Kernels before 6.3 do not know the seal against executing the file, so the call is repeated without
        // it.
        let fd = match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
            Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags)?,
            other => other?,
        };
        rustix::fs::ftruncate(&fd, size_bytes as u64)?;
        let mapping = Self::map(&fd, size_bytes)?;
        rustix::fs::fcntl_add_seals(&fd, SEALS)?;
        Ok((fd, mapping))
    }

    /// Maps memory that a peer created with [`Mapping::create`] and announced with `announced_bytes` bytes.
    ///
    /// # Errors
    /// Returns a [`MapError`] with the reason if the memory is unsuitable. Nothing is mapped on an error.
    pub fn open(fd: impl AsFd, announced_bytes: u64) -> Result<Mapping, MapError> {
        let size_bytes = usize::try_from(announced_bytes)
            .ok()
            .filter(|size_bytes| is_possible(*size_bytes));
        let Some(size_bytes) = size_bytes else {
            return Err(MapError::Announced { announced_bytes });
        };
        // Only a memory file has seals. The seals are checked before the size, because the size of an
        // unsealed file can change.
        let seals = rustix::fs::fcntl_get_seals(&fd).unwrap_or(SealFlags::empty());
        let named = [
            (SealFlags::SHRINK, "shrinking"),
            (SealFlags::GROW, "growing"),
            (SealFlags::SEAL, "further seals"),
        ];
        if let Some((_, missing)) = named.into_iter().find(|(seal, _)| !seals.contains(*seal)) {
            return Err(MapError::Unsealed { missing });
        }
        let failed = |doing| {
            move |error: Errno| MapError::System {
                doing,
                source: error.into(),
            }
        };
        let found = rustix::fs::fstat(&fd).map_err(failed("examined"))?;
        let found_bytes = u64::try_from(found.st_size).unwrap_or_default();
        if found_bytes != announced_bytes {
            return Err(MapError::Size {
                announced_bytes,
                found_bytes,
            });
        }
        Self::map(&fd, size_bytes).map_err(failed("mapped"))
    }

    fn map(fd: impl AsFd, size_bytes: usize) -> Result<Mapping, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses addresses that are not in use.
        let start =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), size_bytes, access, MapFlags::SHARED, fd, 0)? };
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        Ok(Mapping { start, size_bytes })
    }

    /// Returns the address of the first byte.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the size of the mapping in bytes, a multiple of [`PAGE_BYTES`].
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Returns the address of the byte at `offset_bytes`, if the following `len_bytes` bytes are inside the
    /// mapping.
    #[must_use]
    pub fn at(&self, offset_bytes: u64, len_bytes: u64) -> Option<NonNull<u8>> {
        let end = offset_bytes.checked_add(len_bytes)?;
        if end > self.size_bytes as u64 {
            return None;
        }
        // SAFETY: the check above ensures that the offset is inside the mapping, or at its end if the length
        // is 0.
        Some(unsafe { self.start.add(offset_bytes as usize) })
    }

    /// Returns a range of the mapping as words that other processes may change at any moment. Returns `None`
    /// if the range is not inside the mapping, or is not aligned to 8 bytes.
    ///
    /// Memory that is viewed as words must not be used in another way as long as it is mapped. In particular,
    /// no slots may be made of it.
    #[must_use]
    pub fn words(&self, range_bytes: Range<usize>) -> Option<&[AtomicU64]> {
        let len_bytes = range_bytes.end.checked_sub(range_bytes.start)?;
        let is_whole = range_bytes.start.is_multiple_of(8) && len_bytes.is_multiple_of(8);
        let start = self.at(range_bytes.start as u64, len_bytes as u64)?;
        // SAFETY: the range is inside the mapping, which is page-aligned, initialised (files begin as zeroes)
        // and lives as long as the borrow. The alignment of the words was checked. A caller that makes slots
        // of a mapping guarantees not to view the slots' memory as words.
        is_whole.then(|| unsafe { std::slice::from_raw_parts(start.cast().as_ptr(), len_bytes / 8) })
    }

    /// Takes memory for a page-aligned range now. Later writes then neither wait for memory nor end the
    /// process if the system has none.
    ///
    /// # Errors
    /// Returns the system's error if no memory is left, or `Unsupported` on Linux before 5.14.
    pub fn populate(&self, offset_bytes: u64, len_bytes: u64) -> io::Result<()> {
        let start = self
            .at(offset_bytes, len_bytes)
            .ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the range is inside the mapping, and the advice changes no byte of it.
        let populated = unsafe {
            rustix::mm::madvise(
                start.as_ptr().cast(),
                len_bytes as usize,
                Advice::LinuxPopulateWrite,
            )
        };
        populated.map_err(|error| match error {
            Errno::INVAL => io::ErrorKind::Unsupported.into(),
            error => error.into(),
        })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `map` mapped the range as a whole, and no borrow of the mapping can exist any more.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.size_bytes) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}

impl fmt::Debug for Mapping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mapping({} bytes)", self.size_bytes)
    }
}

fn is_possible(size_bytes: usize) -> bool {
    size_bytes > 0 && size_bytes <= MAPPING_BYTES_MAX && size_bytes.is_multiple_of(PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    fn unsealed(size_bytes: u64, seals: SealFlags) -> OwnedFd {
        let fd = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&fd, size_bytes).unwrap();
        rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
        fd
    }

    #[test]
    fn two_mappings_show_the_same_words() {
        let (fd, one) = Mapping::create("test", 2 * PAGE_BYTES).unwrap();
        let other = Mapping::open(&fd, 2 * PAGE_BYTES as u64).unwrap();
        drop(fd);
        let written = one.words(PAGE_BYTES..PAGE_BYTES + 16).unwrap();
        let seen = other.words(0..2 * PAGE_BYTES).unwrap();
        assert_eq!((written.len(), seen.len()), (2, PAGE_BYTES / 4));
        assert!(seen.iter().all(|word| word.load(Ordering::Relaxed) == 0));
        written[1].store(7, Ordering::Relaxed);
        drop(one);
        assert_eq!(seen[PAGE_BYTES / 8 + 1].load(Ordering::Relaxed), 7);
    }

    #[test]
    fn words_outside_the_mapping_are_refused() {
        let (_fd, mapping) = Mapping::create("test", PAGE_BYTES).unwrap();
        for range in [0..PAGE_BYTES + 8, PAGE_BYTES..PAGE_BYTES + 8, 4..12, 8..12] {
            assert!(mapping.words(range.clone()).is_none(), "{range:?}");
        }
        #[expect(clippy::reversed_empty_ranges, reason = "the test needs an invalid range")]
        let reversed = 16..8;
        assert!(mapping.words(reversed).is_none());
        assert!(mapping.at(u64::MAX, 8).is_none());
        assert_eq!(mapping.words(PAGE_BYTES..PAGE_BYTES).unwrap().len(), 0);
    }

    #[test]
    fn a_created_file_cannot_be_changed() {
        let (fd, mapping) = Mapping::create("test", PAGE_BYTES).unwrap();
        for size_bytes in [0, 2 * PAGE_BYTES as u64] {
            assert_eq!(rustix::fs::ftruncate(&fd, size_bytes), Err(Errno::PERM));
        }
        let further = rustix::fs::fcntl_add_seals(&fd, SealFlags::FUTURE_WRITE);
        assert_eq!(further, Err(Errno::PERM));
        assert_eq!(mapping.size_bytes(), PAGE_BYTES);
    }

    #[test]
    fn an_unsealed_or_resized_file_is_refused() {
        let size_bytes = PAGE_BYTES as u64;
        let why = |fd: &OwnedFd, announced| Mapping::open(fd, announced).unwrap_err().to_string();
        for (missing, name) in [
            (SealFlags::SHRINK, "shrinking"),
            (SealFlags::GROW, "growing"),
            (SealFlags::SEAL, "further seals"),
        ] {
            let fd = unsealed(size_bytes, SEALS - missing);
            assert!(why(&fd, size_bytes).contains(name));
        }
        let fd = unsealed(size_bytes, SEALS);
        assert!(
            why(&fd, 2 * size_bytes)
                .contains("expected 8192 bytes of shared memory as announced by the peer, found 4096")
        );
        let cut = unsealed(0, SEALS);
        assert!(why(&cut, size_bytes).contains("found 0 bytes"));
        for announced in [0, 100, MAPPING_BYTES_MAX as u64 + 4096, u64::MAX] {
            assert!(why(&fd, announced).contains("at most"), "{announced}");
        }
        let file = tempfile_fd();
        assert!(why(&file, size_bytes).contains("not sealed against shrinking"));
        assert!(Mapping::open(&fd, size_bytes).is_ok());
    }

    /// Opens a file on which seals are not supported.
    fn tempfile_fd() -> OwnedFd {
        std::fs::File::open(std::env::current_exe().unwrap())
            .unwrap()
            .into()
    }
}
