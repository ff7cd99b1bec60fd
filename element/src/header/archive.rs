//! The wire format of a header, and its writer. Module `validate` checks the headers that are read.
//!
//! Archived types are flat: vectors of fixed-size records, without strings, nesting or shared pointers.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::mem::offset_of;

use rkyv::munge::munge;
use rkyv::primitive::{ArchivedU16, ArchivedU32, ArchivedU64};
use rkyv::rancor::{Failure, Fallible};
use rkyv::ser::allocator::SubAllocator;
use rkyv::ser::writer::Buffer;
use rkyv::ser::{Allocator, Serializer, Writer};
use rkyv::vec::{ArchivedVec, VecResolver};
use rkyv::{Archive, Place, Serialize};

/// The version of the header's wire format. Readers refuse all other versions.
pub const HEADER_VERSION: u16 = 1;
/// Size of a header's root in bytes. For a static spec without provenance, the root is the whole header.
pub const ROOT_BYTES: usize = 40;
/// Maximum size of a header in bytes. The limits on counts keep headers below this size: 64 × 24 + 1024 × 8 +
/// 1024 × 32 + 40 = 42 536.
pub const MAX_HEADER_BYTES: usize = 64 << 10;
/// Maximum number of provenance entries of one element: the largest shuffled batch whose parts are
/// identified.
pub const MAX_PROVENANCE: usize = 1024;

/// A part of a split from which an element, or a part of an element, was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Archive, Serialize)]
pub struct Provenance {
    /// The lease under which the split was read.
    pub lease: u64,
    /// The first position in the split, inclusive.
    pub from: u64,
    /// The last position in the split, exclusive.
    pub upto: u64,
    /// The attempt number of the lease.
    pub attempt: u32,
}

/// One row of the component table of an element whose spec is not static.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Archive, Serialize)]
pub(crate) struct ComponentEntry {
    /// The offset of the payload from the element's start, a multiple of 64.
    pub(crate) offset: u64,
    /// Size of the payload in bytes.
    pub(crate) size_bytes: u64,
    /// The rank of the component: the number of its entries in the header's `dims`, which follow the entries
    /// of the earlier components.
    pub(crate) rank: u32,
}

/// The archived form of a header.
#[derive(Archive)]
#[expect(
    dead_code,
    reason = "only the archived form of this type is used; `HeaderParts` is written"
)]
pub(crate) struct Header {
    /// The version, equal to [`HEADER_VERSION`].
    pub(crate) version: u16,
    /// Size of the whole header in bytes, root included.
    pub(crate) header_bytes: u32,
    /// The position of the element in its task.
    pub(crate) sequence: u64,
    /// The component table; empty for a static spec.
    pub(crate) components: Vec<ComponentEntry>,
    /// The dimensions of all components, one after another; empty for a static spec.
    pub(crate) dims: Vec<u64>,
    /// The provenance entries, at most [`MAX_PROVENANCE`].
    pub(crate) provenance: Vec<Provenance>,
}

/// A header to be written, which borrows its lists. The archived form is that of [`Header`].
#[derive(Debug)]
pub(crate) struct HeaderParts<'a> {
    pub(crate) sequence: u64,
    pub(crate) components: &'a [ComponentEntry],
    pub(crate) dims: &'a [u64],
    pub(crate) provenance: &'a [Provenance],
}

/// Returns the exact size of a header with these counts, in bytes.
pub(crate) const fn header_bytes(components: usize, dims: usize, provenance: usize) -> usize {
    ROOT_BYTES + components * COMPONENT_BYTES + dims * DIM_BYTES + provenance * PROVENANCE_BYTES
}

/// Serialises a header into `out`, which must have exactly the header's size ([`header_bytes`]) and 8-byte
/// alignment.
///
/// # Errors
/// [`Failure`] if the size is wrong, which is a bug of this crate.
pub(super) fn serialize_header(parts: &HeaderParts<'_>, out: &mut [u8]) -> Result<(), Failure> {
    let size = out.len();
    let mut serializer = Serializer::new(Buffer::from(out), SubAllocator::new(&mut []), ());
    rkyv::api::serialize_using::<_, Failure>(parts, &mut serializer)?;
    if serializer.into_writer().len() == size {
        Ok(())
    } else {
        Err(Failure)
    }
}

pub(crate) struct PartsResolver {
    header_bytes: u32,
    components: VecResolver,
    dims: VecResolver,
    provenance: VecResolver,
}

impl Archive for HeaderParts<'_> {
    type Archived = ArchivedHeader;
    type Resolver = PartsResolver;

    #[inline]
    fn resolve(&self, resolver: PartsResolver, out: Place<ArchivedHeader>) {
        munge!(let ArchivedHeader { version, header_bytes, sequence, components, dims, provenance } = out);
        version.write(ArchivedU16::from_native(HEADER_VERSION));
        header_bytes.write(ArchivedU32::from_native(resolver.header_bytes));
        sequence.write(ArchivedU64::from_native(self.sequence));
        ArchivedVec::resolve_from_len(self.components.len(), resolver.components, components);
        ArchivedVec::resolve_from_len(self.dims.len(), resolver.dims, dims);
        ArchivedVec::resolve_from_len(self.provenance.len(), resolver.provenance, provenance);
    }
}

impl<S: Fallible + Allocator + Writer + ?Sized> Serialize<S> for HeaderParts<'_> {
    #[inline]
    fn serialize(&self, serializer: &mut S) -> Result<PartsResolver, S::Error> {
        let size = header_bytes(self.components.len(), self.dims.len(), self.provenance.len());
        Ok(PartsResolver {
            // The limits on counts keep the size far below u32::MAX.
            header_bytes: size as u32,
            components: ArchivedVec::serialize_from_slice(self.components, serializer)?,
            dims: ArchivedVec::serialize_from_slice(self.dims, serializer)?,
            provenance: ArchivedVec::serialize_from_slice(self.provenance, serializer)?,
        })
    }
}

impl From<&ArchivedProvenance> for Provenance {
    fn from(entry: &ArchivedProvenance) -> Provenance {
        Provenance {
            lease: entry.lease.to_native(),
            from: entry.from.to_native(),
            upto: entry.upto.to_native(),
            attempt: entry.attempt.to_native(),
        }
    }
}

const COMPONENT_BYTES: usize = 24;
const DIM_BYTES: usize = 8;
pub(super) const PROVENANCE_BYTES: usize = 32;
/// The offset of the lease in an archived provenance entry.
pub(super) const LEASE_AT: usize = offset_of!(ArchivedProvenance, lease);
/// The offset, in the root, of the number of provenance entries. The entries end where the root begins.
pub(super) const PROVENANCE_COUNT_AT: usize = offset_of!(ArchivedHeader, provenance) + 4;
/// The offset, in the root, of the header's own size. The size is read before the archive is checked.
pub(super) const HEADER_BYTES_AT: usize = 4;

// The assertions below fix the wire format. A feature of rkyv that another crate enables, or a reordered
// field, stops the build.
const _: () = {
    assert!(size_of::<ArchivedHeader>() == ROOT_BYTES && align_of::<ArchivedHeader>() == 8);
    assert!(offset_of!(ArchivedHeader, header_bytes) == HEADER_BYTES_AT);
    assert!(size_of::<ArchivedComponentEntry>() == COMPONENT_BYTES);
    assert!(size_of::<ArchivedProvenance>() == PROVENANCE_BYTES);
    assert!(size_of::<ArchivedU64>() == DIM_BYTES && align_of::<ArchivedU64>() == 8);
    assert!(size_of::<rkyv::primitive::ArchivedIsize>() == 4);
    assert!(size_of::<ArchivedVec<ArchivedProvenance>>() == 8);
};
