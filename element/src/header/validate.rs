//! The only reader of headers. The reader trusts no input. For any bytes it returns an error, or a header
//! whose offsets are all inside the element. The reader never panics, and never reads outside the element.
//!
//! The cost is bounded by the size of the header, whatever the size of the tensors. The contents of string
//! payloads are checked later, by their views.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use rkyv::api::low;
use rkyv::rancor::Failure;
use rkyv::util::AlignedVec;
use smallvec::SmallVec;

use super::archive::{
    ArchivedComponentEntry, ArchivedHeader, ArchivedProvenance, HEADER_BYTES_AT, HEADER_VERSION, LEASE_AT,
    MAX_HEADER_BYTES, MAX_PROVENANCE, PROVENANCE_BYTES, PROVENANCE_COUNT_AT, Provenance, ROOT_BYTES,
};
use super::layout::{HEADER_ALIGN, Layout};
use super::usual;
use crate::slot::{MAX_SLOT_BYTES, SLOT_ALIGN, Slot};
use crate::spec::{DIM_MAX, MAX_RANK, TensorSpec, items_in};

/// The processes that can write the memory of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Only this process, which wrote the memory or received into the memory. The header is checked in place.
    Ours,
    /// Another process, at any time. The header is copied first, and only the copy is checked and used.
    Foreign,
}

impl Origin {
    /// Returns the origin of a slot's memory.
    #[must_use]
    pub fn of(slot: &Slot) -> Origin {
        if slot.is_foreign() {
            Origin::Foreign
        } else {
            Origin::Ours
        }
    }
}

/// The content of a validated header.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) sequence: u64,
    pub(crate) provenance: Provenances,
    /// The component table; `None` for a static spec.
    pub(crate) table: Option<Box<Table>>,
}

/// The provenance entries of an element. A single entry, the usual case, needs no allocation.
#[derive(Debug, Clone)]
pub(crate) enum Provenances {
    None,
    One(Provenance),
    Many(Box<[Provenance]>),
}

impl Provenances {
    #[inline]
    fn copied(entries: &[ArchivedProvenance]) -> Provenances {
        match entries {
            [] => Provenances::None,
            [entry] => Provenances::One(Provenance::from(entry)),
            entries => Provenances::Many(entries.iter().map(Provenance::from).collect()),
        }
    }

    pub(crate) fn as_slice(&self) -> &[Provenance] {
        match self {
            Provenances::None => &[],
            Provenances::One(entry) => std::slice::from_ref(entry),
            Provenances::Many(entries) => entries,
        }
    }
}

/// The component table of one element, read from the element's header.
#[derive(Debug, Default, Clone)]
pub(crate) struct Table {
    pub(crate) rows: SmallVec<[Row; 4]>,
    pub(crate) dims: SmallVec<[u64; 8]>,
}

/// One row of the component table: the position of the component's bytes and of its dimensions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) offset: usize,
    pub(crate) size_bytes: usize,
    pub(crate) dims_at: usize,
    pub(crate) rank: usize,
}

/// The error for bytes that are not an element of the task. All variants except `Misaligned` are faults of
/// the writer; `Misaligned` is a fault of the code that placed the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The slot is too short or too long, or its size is not a multiple of 8.
    #[error("invalid element size of {size_bytes} bytes")]
    Length {
        /// Size of the slot in bytes.
        size_bytes: usize,
    },
    /// The element does not start at a 64-byte boundary.
    #[error("an element must start at a {SLOT_ALIGN}-byte boundary")]
    Misaligned,
    /// The header states an impossible size.
    #[error("the header states an invalid size of {header_bytes} bytes in an element of {size_bytes} bytes")]
    HeaderLength {
        /// The stated size in bytes.
        header_bytes: usize,
        /// Size of the element in bytes.
        size_bytes: usize,
    },
    /// The header is not a valid archive.
    #[error("the header is not a valid archive")]
    Archive,
    /// The version of the header is not supported.
    #[error(
        "the header has version {version}, this program reads {HEADER_VERSION}; run the same release on both sides"
    )]
    Version {
        /// The version in the header.
        version: u16,
    },
    /// For a static spec, the header is not at the offset that the spec determines, or has a component table.
    #[error("the element does not have the size that its spec determines")]
    NotStatic,
    /// The header and the spec have different numbers of components.
    #[error("the header lists {found} components, the spec has {wanted}")]
    Count {
        /// The number of components in the header.
        found: usize,
        /// The number of components in the spec.
        wanted: usize,
    },
    /// The header has too many provenance entries.
    #[error("the header has {count} provenance entries, the limit is {MAX_PROVENANCE}")]
    TooManyProvenance {
        /// The number of entries in the header.
        count: usize,
    },
    /// A row of the component table is invalid.
    #[error("component {component}: {fault}")]
    Component {
        /// The index of the component.
        component: usize,
        /// The fault of the row.
        fault: ComponentFault,
    },
}

/// The fault of a row of the component table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ComponentFault {
    /// The rank exceeds the limit, or the number of dimensions in the header.
    #[error("its rank is wrong")]
    Rank,
    /// A dimension exceeds an `i64`, which frameworks use for dimensions.
    #[error("a dimension exceeds 2^63 - 1")]
    Dimension,
    /// The shape does not match the spec.
    #[error("its shape does not match the spec")]
    Shape,
    /// The payload does not start at a 64-byte boundary.
    #[error("its payload is not 64-byte aligned")]
    Alignment,
    /// The payload overlaps the payload of the previous component.
    #[error("its payload overlaps the one before it")]
    Overlap,
    /// The payload reaches into the header or beyond the element.
    #[error("its payload reaches beyond the element")]
    Bounds,
    /// The size of the payload does not match its shape and dtype.
    #[error("its size does not match its shape")]
    Size,
}

/// Reads the header of the element in `bytes`.
///
/// # Errors
/// [`HeaderError`] if the bytes are not a well-formed element of this layout.
// Always inlined, like `parse`, so that values are read directly into the element without an intermediate
// copy.
#[inline(always)]
pub(crate) fn read_header(bytes: &[u8], layout: &Layout, origin: Origin) -> Result<Parsed, HeaderError> {
    let (header_at, header) = split_header(bytes)?;
    match origin {
        Origin::Ours => parse(header, header_at, layout),
        Origin::Foreign if header.len() <= PRIVATE_BYTES => {
            let mut private = Private([0; PRIVATE_BYTES]);
            private.0[..header.len()].copy_from_slice(header);
            parse(&private.0[..header.len()], header_at, layout)
        }
        Origin::Foreign => {
            let mut private = AlignedVec::<16>::with_capacity(header.len());
            private.extend_from_slice(header);
            parse(&private, header_at, layout)
        }
    }
}

/// Calls `name` with the lease of every split from which an element was made. Needs no layout. Calls nothing
/// if the bytes are not an element.
///
/// The element must be in memory that this process wrote.
///
/// Reads the few required fields at their offsets in the wire format, each once. The cost matters because
/// workers call this function for every element that they send. Reading each field once is safe even if
/// readers share the memory.
#[inline]
pub fn each_lease(bytes: &[u8], mut name: impl FnMut(u64)) {
    let Ok((_, header)) = split_header(bytes) else {
        return;
    };
    let root_at = header.len() - ROOT_BYTES;
    let count = header[root_at + PROVENANCE_COUNT_AT..].first_chunk();
    let count = count.map_or(0, |raw| u32::from_le_bytes(*raw) as usize);
    let Some(first) = root_at.checked_sub(count.min(MAX_PROVENANCE) * PROVENANCE_BYTES) else {
        return;
    };
    for entry in header[first..root_at].chunks_exact(PROVENANCE_BYTES) {
        if let Some(raw) = entry[LEASE_AT..].first_chunk() {
            name(u64::from_le_bytes(*raw));
        }
    }
}

/// Returns the offset of an element's header, and the header's bytes.
#[inline(always)]
fn split_header(bytes: &[u8]) -> Result<(usize, &[u8]), HeaderError> {
    let size_bytes = bytes.len();
    let fits = (ROOT_BYTES..=MAX_SLOT_BYTES).contains(&size_bytes);
    if !fits || !size_bytes.is_multiple_of(HEADER_ALIGN) {
        return Err(HeaderError::Length { size_bytes });
    }
    if !bytes.as_ptr().addr().is_multiple_of(SLOT_ALIGN) {
        return Err(HeaderError::Misaligned);
    }
    let header_bytes = claimed_header_bytes(bytes);
    let plausible = (ROOT_BYTES..=MAX_HEADER_BYTES.min(size_bytes)).contains(&header_bytes);
    if !plausible || !header_bytes.is_multiple_of(HEADER_ALIGN) {
        return Err(HeaderError::HeaderLength {
            header_bytes,
            size_bytes,
        });
    }
    let header_at = size_bytes - header_bytes;
    Ok((header_at, &bytes[header_at..]))
}

/// Returns the size that the header's root states, without any check.
fn claimed_header_bytes(bytes: &[u8]) -> usize {
    let at = bytes.len() - ROOT_BYTES + HEADER_BYTES_AT;
    bytes[at..]
        .first_chunk()
        .map_or(0, |raw| u32::from_le_bytes(*raw) as usize)
}

/// A copy of a small header on the stack.
#[repr(align(16))]
struct Private([u8; PRIVATE_BYTES]);
const PRIVATE_BYTES: usize = 256;

#[inline(always)]
fn parse(header: &[u8], header_at: usize, layout: &Layout) -> Result<Parsed, HeaderError> {
    let is_at_place = layout.fixed().is_some_and(|(_, at)| at == header_at);
    if let Some((sequence, entry)) = usual::read(header).filter(|_| is_at_place) {
        return Ok(Parsed {
            sequence,
            provenance: entry.map_or(Provenances::None, Provenances::One),
            table: None,
        });
    }
    let root = low::access::<ArchivedHeader, Failure>(header).map_err(|Failure| HeaderError::Archive)?;
    let version = root.version.to_native();
    if version != HEADER_VERSION {
        return Err(HeaderError::Version { version });
    }
    let header_bytes = root.header_bytes.to_native() as usize;
    if header_bytes != header.len() {
        // The size was read before the copy was made, and has changed since.
        return Err(HeaderError::HeaderLength {
            header_bytes,
            size_bytes: header_at + header.len(),
        });
    }
    let count = root.provenance.len();
    if count > MAX_PROVENANCE {
        return Err(HeaderError::TooManyProvenance { count });
    }
    let table = match layout.fixed() {
        Some((_, at)) if at == header_at && root.components.is_empty() && root.dims.is_empty() => None,
        Some(_) => return Err(HeaderError::NotStatic),
        None => Some(Box::new(read_table(root, header_at, layout)?)),
    };
    let provenance = Provenances::copied(root.provenance.as_slice());
    Ok(Parsed {
        sequence: root.sequence.to_native(),
        provenance,
        table,
    })
}

fn read_table(root: &ArchivedHeader, header_at: usize, layout: &Layout) -> Result<Table, HeaderError> {
    let specs = layout.spec().components();
    let (found, wanted) = (root.components.len(), specs.len());
    if found != wanted {
        return Err(HeaderError::Count { found, wanted });
    }
    let mut table = Table::default();
    if root.dims.len() > wanted * MAX_RANK {
        return Err(HeaderError::Component {
            component: 0,
            fault: ComponentFault::Rank,
        });
    }
    table.dims.extend(root.dims.iter().map(|dim| dim.to_native()));
    let mut free_from = 0;
    let mut dims_at = 0;
    for (component, (entry, spec)) in root.components.iter().zip(specs).enumerate() {
        let row = read_row(entry, spec, &table.dims, dims_at, free_from..header_at)
            .map_err(|fault| HeaderError::Component { component, fault })?;
        free_from = row.offset + row.size_bytes;
        dims_at += row.rank;
        table.rows.push(row);
    }
    if dims_at != table.dims.len() {
        return Err(HeaderError::Component {
            component: wanted.saturating_sub(1),
            fault: ComponentFault::Rank,
        });
    }
    Ok(table)
}

/// Checks one row of the component table. The payload must be inside `room`.
fn read_row(
    entry: &ArchivedComponentEntry,
    spec: &TensorSpec,
    dims: &[u64],
    dims_at: usize,
    room: std::ops::Range<usize>,
) -> Result<Row, ComponentFault> {
    let rank = entry.rank.to_native() as usize;
    if rank > MAX_RANK {
        return Err(ComponentFault::Rank);
    }
    let dims = dims.get(dims_at..dims_at + rank).ok_or(ComponentFault::Rank)?;
    if dims.iter().any(|dim| *dim > DIM_MAX) {
        return Err(ComponentFault::Dimension);
    }
    if !spec.accepts_dims(dims) {
        return Err(ComponentFault::Shape);
    }
    let (offset, size_bytes) = (entry.offset.to_native(), entry.size_bytes.to_native());
    if !offset.is_multiple_of(SLOT_ALIGN as u64) {
        return Err(ComponentFault::Alignment);
    }
    if offset < room.start as u64 {
        return Err(ComponentFault::Overlap);
    }
    let end = offset.checked_add(size_bytes).ok_or(ComponentFault::Bounds)?;
    if end > room.end as u64 {
        return Err(ComponentFault::Bounds);
    }
    let items = items_in(dims.iter().copied().map(Some)).ok_or(ComponentFault::Size)?;
    let fits = match spec.dtype().item_bytes() {
        Some(item_bytes) => items.checked_mul(item_bytes as u64) == Some(size_bytes),
        // Variable-size items have one offset more than items, followed by the data.
        None => items
            .checked_add(1)
            .and_then(|n| n.checked_mul(8))
            .is_some_and(|offsets| offsets <= size_bytes),
    };
    if !fits {
        return Err(ComponentFault::Size);
    }
    // Both values are below `room.end`, which is a usize.
    Ok(Row {
        offset: offset as usize,
        size_bytes: size_bytes as usize,
        dims_at,
        rank,
    })
}

#[cfg(test)]
mod tests {
    use super::super::archive::{ComponentEntry, HeaderParts, header_bytes};
    use super::super::usual::write_header;
    use super::*;
    use crate::{Dtype, ElementSpec, HeapAlloc, SlotAlloc, SlotMut};
    use std::sync::Arc;

    /// Makes an element with `payload_bytes` of payload, whose header contains the given entries.
    fn forged(payload_bytes: usize, entries: &[(u64, u64, u32)], dims: &[u64], provenance: usize) -> SlotMut {
        let components: Vec<_> = entries
            .iter()
            .map(|&(offset, size_bytes, rank)| ComponentEntry {
                offset,
                size_bytes,
                rank,
            })
            .collect();
        let provenance = vec![Provenance::default(); provenance];
        let size = header_bytes(entries.len(), dims.len(), provenance.len());
        let mut slot = HeapAlloc.alloc(payload_bytes + size).unwrap();
        let parts = HeaderParts {
            sequence: 3,
            components: &components,
            dims,
            provenance: &provenance,
        };
        write_header(&parts, &mut slot[payload_bytes..]).unwrap();
        slot
    }

    fn two_tensors() -> Arc<Layout> {
        let specs = [
            TensorSpec::with_dims(Dtype::U8, &[None]),
            TensorSpec::unknown_rank(Dtype::String),
        ];
        Layout::new(ElementSpec::tuple(specs).unwrap()).unwrap()
    }

    #[test]
    fn leases_are_read_where_the_archive_has_them() {
        for (components, dims, count) in [
            (0, 0, 0),
            (0, 0, 1),
            (2, 3, 1),
            (1, 4, 0),
            (3, 7, 40),
            (0, 0, 1024),
        ] {
            let entries = vec![(0, 64, 1); components];
            let dims: Vec<u64> = (0..dims).collect();
            let mut slot = forged(64, &entries, &dims, 0);
            let provenance: Vec<Provenance> = (0..count)
                .map(|number| Provenance {
                    lease: u64::MAX - number,
                    from: number,
                    upto: number + 1,
                    attempt: 7,
                })
                .collect();
            let rows: Vec<_> = entries
                .iter()
                .map(|&(offset, size_bytes, rank)| ComponentEntry {
                    offset,
                    size_bytes,
                    rank,
                })
                .collect();
            let parts = HeaderParts {
                sequence: 3,
                components: &rows,
                dims: &dims,
                provenance: &provenance,
            };
            if count > 0 {
                let size = header_bytes(components, dims.len(), provenance.len());
                slot = HeapAlloc.alloc(64 + size).unwrap();
                write_header(&parts, &mut slot[64..]).unwrap();
            }
            let mut named = Vec::new();
            each_lease(&slot, |lease| named.push(lease));
            let expected: Vec<u64> = provenance.iter().map(|entry| entry.lease).collect();
            assert_eq!(named, expected);
        }
        each_lease(&[0; 64], |lease| {
            panic!("found lease {lease} in bytes that are not an element")
        });
    }

    fn fault(entries: &[(u64, u64, u32)], dims: &[u64]) -> Result<(), (usize, ComponentFault)> {
        let slot = forged(256, entries, dims, 0);
        let results = [Origin::Ours, Origin::Foreign].map(|origin| {
            match read_header(&slot, &two_tensors(), origin).map(drop) {
                Ok(()) => Ok(()),
                Err(HeaderError::Component { component, fault }) => Err((component, fault)),
                Err(other) => panic!("{other}"),
            }
        });
        assert_eq!(results[0], results[1]);
        results[0]
    }

    #[test]
    fn every_lie_of_a_table_is_refused() {
        let good = [(0, 64, 1), (64, 32, 1)];
        assert_eq!(fault(&good, &[64, 3]), Ok(()));
        assert_eq!(
            fault(&[(192, 64, 1), (256, 0, 1)], &[64, 3]),
            Err((1, ComponentFault::Size))
        );
        assert_eq!(
            fault(&[(8, 64, 1), good[1]], &[64, 3]),
            Err((0, ComponentFault::Alignment))
        );
        assert_eq!(
            fault(&[good[0], (0, 32, 1)], &[64, 3]),
            Err((1, ComponentFault::Overlap))
        );
        assert_eq!(
            fault(&[(64, 64, 1), (0, 32, 1)], &[64, 3]),
            Err((1, ComponentFault::Overlap))
        );
        assert_eq!(
            fault(&[good[0], (192, 72, 1)], &[64, 3]),
            Err((1, ComponentFault::Bounds))
        );
        assert_eq!(
            fault(&[good[0], (1 << 40, 32, 1)], &[64, 3]),
            Err((1, ComponentFault::Bounds))
        );
        assert_eq!(
            fault(&[good[0], (64, u64::MAX - 63, 1)], &[64, 3]),
            Err((1, ComponentFault::Bounds))
        );
        assert_eq!(
            fault(&[(0, 65, 1), (128, 32, 1)], &[64, 3]),
            Err((0, ComponentFault::Size))
        );
        assert_eq!(
            fault(&[good[0], (64, 31, 1)], &[64, 3]),
            Err((1, ComponentFault::Size))
        );
        assert_eq!(
            fault(&[good[0], (64, 32, 2)], &[64, DIM_MAX, 2]),
            Err((1, ComponentFault::Size))
        );
        assert_eq!(
            fault(&[good[0], (64, 32, 1)], &[64, DIM_MAX]),
            Err((1, ComponentFault::Size))
        );
        // A dimension of 0 makes the payload empty, whatever the other dimension is.
        assert_eq!(fault(&[good[0], (64, 8, 2)], &[64, DIM_MAX, 0]), Ok(()));
        assert_eq!(
            fault(&[good[0], (64, 8, 2)], &[64, DIM_MAX + 1, 0]),
            Err((1, ComponentFault::Dimension))
        );
        assert_eq!(
            fault(&[(0, 64, 2), good[1]], &[8, 8, 3]),
            Err((0, ComponentFault::Shape))
        );
        let deep: Vec<u64> = std::iter::once(64).chain([1; 17]).collect();
        assert_eq!(
            fault(&[good[0], (64, 32, 17)], &deep),
            Err((1, ComponentFault::Rank))
        );
        assert_eq!(
            fault(&[good[0], (64, 32, u32::MAX)], &[64, 3]),
            Err((1, ComponentFault::Rank))
        );
        assert_eq!(fault(&good, &[64, 3, 1]), Err((1, ComponentFault::Rank)));
        assert_eq!(fault(&good, &[64]), Err((1, ComponentFault::Rank)));
    }

    #[test]
    fn counts_are_bounded_and_must_match_the_spec() {
        let layout = two_tensors();
        let read = |slot: &[u8]| {
            read_header(slot, &layout, Origin::Foreign).map(|parsed| parsed.provenance.as_slice().len())
        };
        let entries = [(0, 64, 1), (64, 32, 1)];
        assert_eq!(
            read(&forged(256, &entries, &[64, 3], MAX_PROVENANCE)),
            Ok(MAX_PROVENANCE)
        );
        let count = MAX_PROVENANCE + 1;
        let many = read(&forged(256, &entries, &[64, 3], count));
        assert_eq!(many, Err(HeaderError::TooManyProvenance { count }));
        let few = read(&forged(256, &entries[..1], &[64], 0));
        assert_eq!(few, Err(HeaderError::Count { found: 1, wanted: 2 }));
        let huge = read(&forged(256, &entries, &[64, 3], 2100));
        assert!(matches!(huge, Err(HeaderError::HeaderLength { .. })));
    }

    #[test]
    fn a_static_spec_accepts_only_its_size() {
        let spec = ElementSpec::single(TensorSpec::fixed(Dtype::U8, &[64])).unwrap();
        let layout = Layout::new(spec).unwrap();
        let read = |slot: &[u8]| read_header(slot, &layout, Origin::Ours).map(|parsed| parsed.sequence);
        assert_eq!(read(&forged(64, &[], &[], 2)), Ok(3));
        assert_eq!(read(&forged(128, &[], &[], 0)), Err(HeaderError::NotStatic));
        assert_eq!(read(&forged(0, &[], &[], 0)), Err(HeaderError::NotStatic));
        assert_eq!(
            read(&forged(64, &[(0, 64, 1)], &[64], 0)),
            Err(HeaderError::NotStatic)
        );
        assert_eq!(read(&forged(64, &[], &[64], 0)), Err(HeaderError::NotStatic));
    }
}
