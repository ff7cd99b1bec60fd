//! Memory behind a descriptor, mapped into this process: created and sealed, or opened from a peer and
//! checked first.
//!
//! Invariant: a mapping covers exactly a file that can neither shrink nor grow, so no access to it can fault.
//! Refuses to know what the memory holds, and who writes which part of it.
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

/// The smallest page of a system this runs on; mappings are multiples of it.
pub const PAGE_BYTES: usize = 4096;

/// A mapping has so many bytes at most: 1 TiB, some thousands of which fit the addresses of a process. What a
/// peer announces costs nothing but addresses.
pub const MAPPING_BYTES_MAX: usize = 1 << 40;

/// The seals against cutting and extending the file, and against further seals: a peer could forbid to map it
/// for writing.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Why a descriptor of a peer is not mapped. The peer's fault, except for `System`.
#[derive(Debug, Error)]
pub enum MapError {
    /// The descriptor is no memory file, or one that the peer could still cut.
    #[error(
        "the peer's shared memory is refused: it is not sealed against {missing}, so that it could be taken away while it \
         is in use"
    )]
    Unsealed {
        /// The missing seal.
        missing: &'static str,
    },
    /// The size is not what was announced.
    #[error(
        "the peer's shared memory is refused: it has {found_bytes} bytes, announced were {announced_bytes}"
    )]
    Size {
        /// The length that the peer said.
        announced_bytes: u64,
        /// The length of the file.
        found_bytes: u64,
    },
    /// No mapping can have that size.
    #[error(
        "the peer's shared memory is refused: {announced_bytes} bytes were announced, it can have {MAPPING_BYTES_MAX} at most, \
         in whole pages of {PAGE_BYTES}"
    )]
    Announced {
        /// The length that the peer said.
        announced_bytes: u64,
    },
    /// The system refused.
    #[error("shared memory cannot be {doing}: {source}")]
    System {
        /// Call that failed.
        doing: &'static str,
        /// Error of the system.
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

/// Memory of a sealed file, readable and writable by every process that has mapped it; unmapped when dropped.
///
/// Other processes may change any byte at any moment. What is written by several sides at once is viewed as
/// [`Mapping::words`]; everything else is handed from side to side as a whole, and is not touched by the one
/// that handed it over.
pub struct Mapping {
    start: NonNull<u8>,
    size_bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread; it is unmapped once, by its only owner.
unsafe impl Send for Mapping {}
// SAFETY: a shared mapping gives out atomic words and addresses only.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeroed memory of `size_bytes`, a positive multiple of [`PAGE_BYTES`], and the descriptor by which
    /// others can map it. It takes memory page by page, as it is written. `name` is for people who look at
    /// the process.
    ///
    /// # Errors
    /// What the system said; a size that is not possible is `InvalidInput`.
    pub fn create(name: &str, size_bytes: usize) -> io::Result<(OwnedFd, Mapping)> {
        Self::create_with(name, size_bytes, MemfdFlags::empty())
    }

    /// Creates a mapping, as [`Mapping::create`] does, of huge pages of the system's default size; all of
    /// them are reserved at once.
    ///
    /// # Errors
    /// As there; most systems have no huge pages set aside, and `size_bytes` must be a multiple of theirs.
    pub fn create_huge(name: &str, size_bytes: usize) -> io::Result<(OwnedFd, Mapping)> {
        Self::create_with(name, size_bytes, MemfdFlags::HUGETLB)
    }

    fn create_with(name: &str, size_bytes: usize, kind: MemfdFlags) -> io::Result<(OwnedFd, Mapping)> {
        if !is_possible(size_bytes) {
            let message = format!("{size_bytes} bytes of shared memory");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | kind;
        // Kernels before 6.3 do not know that seal, which keeps the file from being run.
        let fd = match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
            Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags)?,
            other => other?,
        };
        rustix::fs::ftruncate(&fd, size_bytes as u64)?;
        let mapping = Self::map(&fd, size_bytes)?;
        rustix::fs::fcntl_add_seals(&fd, SEALS)?;
        Ok((fd, mapping))
    }

    /// Maps memory that a peer created with [`Mapping::create`] and says has `announced_bytes`.
    ///
    /// # Errors
    /// [`MapError`], which says what is wrong with it; then nothing was mapped.
    pub fn open(fd: impl AsFd, announced_bytes: u64) -> Result<Mapping, MapError> {
        let size_bytes = usize::try_from(announced_bytes)
            .ok()
            .filter(|size_bytes| is_possible(*size_bytes));
        let Some(size_bytes) = size_bytes else {
            return Err(MapError::Announced { announced_bytes });
        };
        // Only files that can be sealed have seals to be asked for. They come first: while they are missing
        // the size can change.
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
        // SAFETY: the kernel chooses addresses that nothing else uses.
        let start =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), size_bytes, access, MapFlags::SHARED, fd, 0)? };
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        Ok(Mapping { start, size_bytes })
    }

    /// The first byte.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes of the mapping, a multiple of [`PAGE_BYTES`].
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// The byte at `offset_bytes`, if `len_bytes` from there on lie in the mapping.
    #[must_use]
    pub fn at(&self, offset_bytes: u64, len_bytes: u64) -> Option<NonNull<u8>> {
        let end = offset_bytes.checked_add(len_bytes)?;
        if end > self.size_bytes as u64 {
            return None;
        }
        // SAFETY: the offset was just checked to lie in the mapping, or at its end where the length is 0.
        Some(unsafe { self.start.add(offset_bytes as usize) })
    }

    /// A range of the mapping as words that other processes may change at any moment. `None` if it is not
    /// inside, or does not begin and end at multiples of 8 bytes.
    ///
    /// Memory that is viewed as words is used in no other way as long as it is mapped: no slots are made of
    /// it.
    #[must_use]
    pub fn words(&self, range_bytes: Range<usize>) -> Option<&[AtomicU64]> {
        let len_bytes = range_bytes.end.checked_sub(range_bytes.start)?;
        let is_whole = range_bytes.start.is_multiple_of(8) && len_bytes.is_multiple_of(8);
        let start = self.at(range_bytes.start as u64, len_bytes as u64)?;
        // SAFETY: the range lies in the mapping, which is page-aligned, initialised (files begin as zeroes)
        // and lives as long as the borrow; words are aligned as was checked. A caller that makes slots of a
        // mapping guarantees not to view it as words.
        is_whole.then(|| unsafe { std::slice::from_raw_parts(start.cast().as_ptr(), len_bytes / 8) })
    }

    /// Takes memory for a page-aligned range now, so that writing it later neither waits nor ends the process
    /// for want of memory.
    ///
    /// # Errors
    /// What the system said: it has no memory, or (`Unsupported`) it cannot do this before Linux 5.14.
    pub fn populate(&self, offset_bytes: u64, len_bytes: u64) -> io::Result<()> {
        let start = self
            .at(offset_bytes, len_bytes)
            .ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the range lies in the mapping, and this advice changes no byte of it.
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
        // SAFETY: the range was mapped by `map` as a whole, and its user keeps the mapping meanwhile.
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
        #[expect(clippy::reversed_empty_ranges, reason = "a range that is wrong")]
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
        assert!(why(&fd, 2 * size_bytes).contains("has 4096 bytes, announced were 8192"));
        let cut = unsealed(0, SEALS);
        assert!(why(&cut, size_bytes).contains("has 0 bytes"));
        for announced in [0, 100, MAPPING_BYTES_MAX as u64 + 4096, u64::MAX] {
            assert!(why(&fd, announced).contains("at most"), "{announced}");
        }
        let file = tempfile_fd();
        assert!(why(&file, size_bytes).contains("not sealed against shrinking"));
        assert!(Mapping::open(&fd, size_bytes).is_ok());
    }

    /// A file that knows no seals.
    fn tempfile_fd() -> OwnedFd {
        std::fs::File::open(std::env::current_exe().unwrap())
            .unwrap()
            .into()
    }
}
