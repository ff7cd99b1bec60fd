//! The header of an element of a static spec that was made from at most one split. Almost all small elements
//! have such a header.
//!
//! The archive of these headers differs in a few numbers only. It is made by `rkyv` once, and its numbers are
//! replaced for each element. An archive that equals the blank one except for the numbers is valid, so
//! reading needs no further check. Both save a third of the cost of an element of 1 KiB.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::mem::offset_of;
use std::sync::LazyLock;

use rkyv::rancor::Failure;

use super::archive::{
    ArchivedHeader, ArchivedProvenance, HeaderParts, LEASE_AT, PROVENANCE_BYTES, Provenance, ROOT_BYTES,
    serialize_header,
};

/// The maximum number of entries of a usual header.
const ENTRIES_MAX: usize = 1;
const BYTES_MAX: usize = ROOT_BYTES + ENTRIES_MAX * PROVENANCE_BYTES;
/// The offset of the sequence number in the root.
const SEQUENCE_AT: usize = offset_of!(ArchivedHeader, sequence);
/// The offsets in an archived provenance entry.
const FROM_AT: usize = offset_of!(ArchivedProvenance, from);
const UPTO_AT: usize = offset_of!(ArchivedProvenance, upto);
const ATTEMPT_AT: usize = offset_of!(ArchivedProvenance, attempt);

/// The archives of usual headers whose numbers are 0, by the number of entries. The root ends each array.
static BLANKS: LazyLock<[Option<[u8; BYTES_MAX]>; ENTRIES_MAX + 1]> =
    LazyLock::new(|| std::array::from_fn(blank));

fn blank(entries: usize) -> Option<[u8; BYTES_MAX]> {
    let mut aligned = Aligned([0; BYTES_MAX]);
    let parts = HeaderParts {
        sequence: 0,
        components: &[],
        dims: &[],
        provenance: &[Provenance::default(); ENTRIES_MAX][..entries],
    };
    let unused = (ENTRIES_MAX - entries) * PROVENANCE_BYTES;
    serialize_header(&parts, &mut aligned.0[unused..]).ok()?;
    Some(aligned.0)
}

/// Bytes with the alignment of a header.
#[repr(align(8))]
struct Aligned([u8; BYTES_MAX]);

/// Returns the archive of a header with this number of entries, in which all other numbers are 0. Returns
/// `None` for more entries than a usual header has.
#[inline]
fn blank_of(entries: usize) -> Option<&'static [u8]> {
    let blank = BLANKS.get(entries)?.as_ref()?;
    Some(&blank[(ENTRIES_MAX - entries) * PROVENANCE_BYTES..])
}

/// Writes a header into `out`, which must have exactly the header's size
/// ([`header_bytes`](super::header_bytes)) and 8-byte alignment.
///
/// # Errors
/// [`Failure`] if the size is wrong, which is a bug of this crate.
#[inline]
pub(crate) fn write_header(parts: &HeaderParts<'_>, out: &mut [u8]) -> Result<(), Failure> {
    let has_table = !parts.components.is_empty() || !parts.dims.is_empty();
    if !has_table && write(parts.sequence, parts.provenance, out) {
        return Ok(());
    }
    serialize_header(parts, out)
}

/// Writes a header without components into `out`. Returns whether it was a usual header; otherwise nothing
/// was written.
#[inline]
fn write(sequence: u64, provenance: &[Provenance], out: &mut [u8]) -> bool {
    let Some(blank) = blank_of(provenance.len()).filter(|blank| blank.len() == out.len()) else {
        return false;
    };
    out.copy_from_slice(blank);
    let (entries, root) = out.split_at_mut(out.len() - ROOT_BYTES);
    put(root, SEQUENCE_AT, sequence.to_le_bytes());
    if let [entry] = provenance {
        put(entries, LEASE_AT, entry.lease.to_le_bytes());
        put(entries, FROM_AT, entry.from.to_le_bytes());
        put(entries, UPTO_AT, entry.upto.to_le_bytes());
        put(entries, ATTEMPT_AT, entry.attempt.to_le_bytes());
    }
    true
}

/// Reads a usual header: its sequence number, and its entry if it has one. Returns `None` for any other
/// bytes, which can still be a valid header.
#[inline]
pub(super) fn read(header: &[u8]) -> Option<(u64, Option<Provenance>)> {
    let entries_bytes = header.len().checked_sub(ROOT_BYTES)?;
    let blank = blank_of(entries_bytes / PROVENANCE_BYTES).filter(|blank| blank.len() == header.len())?;
    let mut numbers = [0; BYTES_MAX];
    let numbers = numbers.get_mut(..header.len())?;
    numbers.copy_from_slice(header);
    let (entries, root) = numbers.split_at_mut(entries_bytes);
    let sequence = u64::from_le_bytes(take(root, SEQUENCE_AT));
    let provenance = (!entries.is_empty()).then(|| Provenance {
        lease: u64::from_le_bytes(take(entries, LEASE_AT)),
        from: u64::from_le_bytes(take(entries, FROM_AT)),
        upto: u64::from_le_bytes(take(entries, UPTO_AT)),
        attempt: u32::from_le_bytes(take(entries, ATTEMPT_AT)),
    });
    (numbers == blank).then_some((sequence, provenance))
}

#[inline]
fn put<const BYTES: usize>(bytes: &mut [u8], at: usize, number: [u8; BYTES]) {
    if let Some(place) = bytes[at..].first_chunk_mut() {
        *place = number;
    }
}

/// Returns a number, and replaces it by zeros.
#[inline]
fn take<const BYTES: usize>(bytes: &mut [u8], at: usize) -> [u8; BYTES] {
    bytes[at..]
        .first_chunk_mut()
        .map_or([0; BYTES], |place| std::mem::replace(place, [0; BYTES]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::archive::header_bytes;
    use super::*;

    fn serialized(sequence: u64, provenance: &[Provenance]) -> Vec<u8> {
        let mut aligned = Aligned([0; BYTES_MAX]);
        let parts = HeaderParts {
            sequence,
            components: &[],
            dims: &[],
            provenance,
        };
        let size = header_bytes(0, 0, provenance.len());
        serialize_header(&parts, &mut aligned.0[..size]).unwrap();
        aligned.0[..size].to_vec()
    }

    fn entry() -> impl Strategy<Value = Provenance> {
        let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>());
        numbers.prop_map(|(lease, from, upto, attempt)| Provenance {
            lease,
            from,
            upto,
            attempt,
        })
    }

    proptest! {
        #[test]
        fn usual_headers_are_those_of_the_serializer(
            sequence: u64,
            provenance in prop::collection::vec(entry(), 0..=ENTRIES_MAX),
        ) {
            let expected = serialized(sequence, &provenance);
            let mut written = vec![7; expected.len()];
            prop_assert!(write(sequence, &provenance, &mut written));
            prop_assert_eq!(&written, &expected);
            prop_assert_eq!(read(&written), Some((sequence, provenance.first().copied())));
        }

        /// A changed byte changes a number, or leaves no usual header.
        #[test]
        fn changed_headers_are_not_usual(
            provenance in prop::collection::vec(entry(), 0..=ENTRIES_MAX),
            at in any::<prop::sample::Index>(),
            by in 1_u8..,
        ) {
            let mut bytes = serialized(3, &provenance);
            let at = at.index(bytes.len());
            bytes[at] ^= by;
            if let Some((sequence, found)) = read(&bytes) {
                prop_assert!((sequence, found) != (3, provenance.first().copied()));
                prop_assert_eq!(serialized(sequence, found.as_slice()), bytes);
            }
        }
    }

    #[test]
    fn other_headers_are_not_usual() {
        let two = [Provenance::default(); 2];
        let mut out = vec![7; header_bytes(0, 0, 2)];
        assert!(!write(3, &two, &mut out));
        assert!(out.iter().all(|byte| *byte == 7), "nothing was written");
        for length in [0, 39, 41, 71, 73, 104] {
            assert_eq!(read(&vec![0; length]), None);
        }
    }
}
