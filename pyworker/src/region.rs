//! Memory that this process and one executor share. A region first contains the input of a call, and then the
//! result. The result is viewed in place until its last view is dropped. This file does not know the contents
//! of regions.
//!
//! The right to write alternates: this process writes before it sends the call, and the executor writes until
//! it answers. After the answer neither process writes, until all views are dropped and the region is free
//! again.
#![expect(unsafe_code, reason = "memory that another process writes is viewed as bytes")]

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use millstream_dataplane::transport::shm::map::{Mapping, PAGE_BYTES};
use parking_lot::Mutex;

/// Maximum number of one executor's regions with viewed results. Results beyond this limit are copied, so
/// that stored results do not hold shared memory.
const VIEWED_MAX: usize = 8;
/// Maximum total size in bytes of these regions.
const VIEWED_BYTES_MAX: usize = 256 << 20;
/// Maximum size of one region in bytes, and so of one element.
pub(super) const REGION_BYTES_MAX: u64 = 1 << 30;

/// A region that both processes map and know by the same number.
#[derive(Debug)]
struct Region {
    id: u32,
    mapping: Mapping,
}

/// The regions of one executor.
#[derive(Debug, Clone, Default)]
pub(super) struct Regions {
    shared: Arc<Mutex<Books>>,
}

#[derive(Debug, Default)]
struct Books {
    next: u32,
    free: Vec<Region>,
    /// The number of leased regions, and below, their total size in bytes.
    out: usize,
    out_bytes: usize,
    /// The numbers of the regions that the executor may unmap.
    retired: Vec<u32>,
}

/// A region that one call has leased.
#[derive(Debug)]
pub(super) struct Lease {
    region: Option<Region>,
    home: Weak<Mutex<Books>>,
}

/// A part of a leased region whose contents no longer change.
struct Piece {
    lease: Arc<Lease>,
    at: usize,
    len: usize,
}

impl Regions {
    /// Leases a region of at least `bytes`. Also returns its file descriptor if the executor does not have
    /// the region yet.
    pub(super) fn lease(&self, bytes: u64) -> io::Result<(Lease, Option<OwnedFd>)> {
        let wanted = usize::try_from(bytes.clamp(1, REGION_BYTES_MAX)).unwrap_or(PAGE_BYTES);
        let mut books = self.shared.lock();
        let fitting = books
            .free
            .iter()
            .position(|region| region.mapping.size_bytes() >= wanted);
        let (region, fd) = match fitting {
            Some(index) => (books.free.swap_remove(index), None),
            None => {
                // All free regions are too small. The new, larger region replaces them.
                while let Some(small) = books.free.pop() {
                    books.retired.push(small.id);
                }
                // Makes the region an eighth larger than needed, because the sizes of elements vary a little.
                let size = (wanted + wanted / 8).next_multiple_of(PAGE_BYTES);
                let (fd, mapping) = Mapping::create("millstream-python", size)?;
                books.next = books.next.wrapping_add(1).max(1);
                (
                    Region {
                        id: books.next,
                        mapping,
                    },
                    Some(fd),
                )
            }
        };
        books.out += 1;
        books.out_bytes += region.mapping.size_bytes();
        let lease = Lease {
            region: Some(region),
            home: Arc::downgrade(&self.shared),
        };
        Ok((lease, fd))
    }

    /// Takes the numbers of the regions that the executor may unmap. Returns each number only once.
    pub(super) fn retired(&self) -> Vec<u32> {
        std::mem::take(&mut self.shared.lock().retired)
    }

    /// Returns whether so much memory is viewed that the next result should be copied.
    fn is_crowded(&self) -> bool {
        let books = self.shared.lock();
        books.out > VIEWED_MAX || books.out_bytes > VIEWED_BYTES_MAX
    }

    /// Returns the parts of a result, as views of the region, or as copies if too much memory is viewed.
    /// Returns `None` if a part is outside the region.
    pub(super) fn results(&self, lease: Lease, parts: &[(u64, u64)]) -> Option<Vec<Bytes>> {
        let copies = self.is_crowded();
        let lease = Arc::new(lease);
        let taken = parts.iter().map(|(at, len)| {
            let end = at.checked_add(*len)?;
            if end > lease.size_bytes() {
                return None;
            }
            let piece = Piece {
                lease: Arc::clone(&lease),
                at: usize::try_from(*at).ok()?,
                len: usize::try_from(*len).ok()?,
            };
            Some(if copies {
                Bytes::copy_from_slice(piece.as_ref())
            } else {
                Bytes::from_owner(piece)
            })
        });
        taken.collect()
    }
}

impl Lease {
    /// Returns the number by which the executor knows the region.
    pub(super) fn id(&self) -> u32 {
        self.region.as_ref().map_or(0, |region| region.id)
    }

    /// Returns the size of the region in bytes.
    pub(super) fn size_bytes(&self) -> u64 {
        self.region
            .as_ref()
            .map_or(0, |region| region.mapping.size_bytes() as u64)
    }

    /// Returns the bytes of the region, into which the caller writes the input before it sends the call.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        match &self.region {
            // SAFETY: the mapping has this size and lives as long as the lease. The lease is borrowed mutably
            // and is not yet a result, so no view of the region exists. The executor writes only between a
            // call and its answer.
            Some(Region { mapping, .. }) => unsafe {
                std::slice::from_raw_parts_mut(mapping.start().as_ptr(), mapping.size_bytes())
            },
            None => &mut [],
        }
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        match &self.lease.region {
            // SAFETY: `results` has checked that the part is inside the mapping, and the mapping lives as
            // long as the lease. The executor has answered, and does not write to the part any more. If the
            // user's code writes nevertheless, only the user's data are wrong, because bytes of any value are
            // valid here.
            Some(Region { mapping, .. }) => unsafe {
                std::slice::from_raw_parts(mapping.start().as_ptr().add(self.at), self.len)
            },
            None => &[],
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Without a home the executor has ended, and dropping the region frees its memory.
        if let (Some(region), Some(home)) = (self.region.take(), self.home.upgrade()) {
            let mut books = home.lock();
            books.out -= 1;
            books.out_bytes -= region.mapping.size_bytes();
            if books.free.len() < VIEWED_MAX {
                books.free.push(region);
            } else {
                books.retired.push(region.id);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_free_after_its_last_view() {
        let regions = Regions::default();
        let (mut lease, fd) = regions.lease(10_000).unwrap();
        assert!(fd.is_some());
        let id = lease.id();
        lease.bytes_mut()[100..103].copy_from_slice(b"abc");
        let views = regions.results(lease, &[(100, 2), (102, 1)]).unwrap();
        assert_eq!((&views[0][..], &views[1][..]), (&b"ab"[..], &b"c"[..]));
        let (other, fd) = regions.lease(10_000).unwrap();
        assert!(
            fd.is_some() && other.id() != id,
            "the first region is still viewed"
        );
        drop(views);
        let (again, fd) = regions.lease(5_000).unwrap();
        assert!(fd.is_none() && again.id() == id);
    }

    #[test]
    fn hoarders_get_copies_and_stray_parts_fail() {
        let regions = Regions::default();
        let mut kept = Vec::new();
        for _ in 0..3 * VIEWED_MAX {
            let (lease, _) = regions.lease(1).unwrap();
            kept.extend(regions.results(lease, &[(0, 1)]).unwrap());
        }
        assert_eq!(regions.shared.lock().out, VIEWED_MAX);
        let (lease, _) = regions.lease(1).unwrap();
        let size = lease.size_bytes();
        assert!(regions.results(lease, &[(size, 1)]).is_none());
        let (lease, _) = regions.lease(1).unwrap();
        assert!(regions.results(lease, &[(u64::MAX, 2)]).is_none());
    }

    #[test]
    fn larger_regions_replace_smaller_ones() {
        let regions = Regions::default();
        let (small, _) = regions.lease(1).unwrap();
        let id = small.id();
        drop(small);
        let (_large, fd) = regions.lease(1 << 20).unwrap();
        assert!(fd.is_some());
        assert_eq!((regions.retired(), regions.retired()), (vec![id], vec![]));
    }
}
