//! The elements of a pack as they are transferred: uncompressed, or compressed as one block.
//!
//! The worker's pool compresses; the reader's thread decompresses when it hands elements over. Threads that
//! serve sockets do neither. Links and credits are unknown to this module.

use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};
use millstream_element::{AllocError, Pack, PackError, Slot, SlotAlloc};
use thiserror::Error;

use crate::proto::send::TaskPack;

/// The compression of elements that cross a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// One LZ4 block for each pack, unless compression makes the pack larger.
    Lz4,
    /// LZ4 blocks for a task on a link while measurements show that compression is faster; otherwise no
    /// compression.
    Auto,
}

impl Compression {
    /// Returns the name that command lines and reports use.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
            Self::Auto => "auto",
        }
    }
}

impl std::str::FromStr for Compression {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "lz4" => Ok(Self::Lz4),
            "auto" => Ok(Self::Auto),
            other => Err(format!(
                "unknown compression `{other}`: expected `none`, `lz4` or `auto`"
            )),
        }
    }
}

/// The number of pieces of a pack in a sample. The pieces are spread evenly, because the beginning of a pack
/// may differ from the rest.
const SAMPLE_PIECES: usize = 4;

/// The size of a sample's piece in bytes. LZ4 does not look back farther.
const SAMPLE_PIECE_BYTES: usize = 64 << 10;

/// The elements of a pack as a link transfers them.
#[derive(Debug, Clone)]
pub enum Body {
    /// Elements that can be read at once.
    Plain(Pack),
    /// Elements that must be decompressed first.
    Lz4 {
        /// The LZ4 block.
        block: Slot,
        /// The exact size of the decompressed block, in bytes.
        region_bytes: usize,
        /// The length of each element, in bytes.
        lens: Vec<u64>,
    },
}

/// The reason for which a body cannot be opened. The peer is at fault except for `Alloc`.
#[derive(Debug, Error)]
pub enum BodyError {
    /// The block does not decompress to the announced size.
    #[error("invalid compressed pack: {0}")]
    Corrupt(String),
    /// The decompressed elements contradict the table of lengths.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// No memory is available for the decompressed elements.
    #[error(transparent)]
    Alloc(#[from] AllocError),
}

impl From<Pack> for Body {
    fn from(pack: Pack) -> Body {
        Body::Plain(pack)
    }
}

impl From<TaskPack> for TaskPack<Body> {
    fn from(TaskPack { task, first, pack }: TaskPack) -> TaskPack<Body> {
        let pack = pack.into();
        TaskPack { task, first, pack }
    }
}

impl Body {
    /// Returns the number of elements.
    #[expect(clippy::len_without_is_empty, reason = "a pack has at least one element")]
    pub fn len(&self) -> usize {
        match self {
            Self::Plain(pack) => pack.len(),
            Self::Lz4 { lens, .. } => lens.len(),
        }
    }

    /// Returns the bytes of the uncompressed elements, including the gaps between elements.
    pub fn region_bytes(&self) -> u64 {
        match self {
            Self::Plain(pack) => pack.region().len() as u64,
            Self::Lz4 { region_bytes, .. } => *region_bytes as u64,
        }
    }

    /// Returns the bytes that cross the network, without the header.
    pub(crate) fn transferred_bytes(&self) -> usize {
        match self {
            Self::Plain(pack) => pack.region().len(),
            Self::Lz4 { block, .. } => block.len(),
        }
    }

    /// Returns the number of bytes that [`Body::open`] writes, for the count of
    /// [`LinkReport::bytes_copied`](super::LinkReport::bytes_copied).
    pub fn copies_when_opened(&self) -> u64 {
        match self {
            Self::Plain(_) => 0,
            Self::Lz4 { region_bytes, .. } => *region_bytes as u64,
        }
    }

    /// Returns the elements, decompressed into a slot of `alloc` if necessary.
    pub fn open(self, alloc: &dyn SlotAlloc) -> Result<Pack, BodyError> {
        match self {
            Self::Plain(pack) => Ok(pack),
            Self::Lz4 {
                block,
                region_bytes,
                lens,
            } => {
                let mut slot = alloc.alloc(region_bytes)?;
                let restored = decompress_into(&block, &mut slot)
                    .map_err(|error| BodyError::Corrupt(error.to_string()))?;
                if restored != region_bytes {
                    let message = format!("expected {region_bytes} bytes, found {restored}");
                    return Err(BodyError::Corrupt(message));
                }
                Ok(Pack::from_parts(slot.freeze(), &lens)?)
            }
        }
    }
}

/// Compresses a pack's region as one LZ4 block. Returns `None` if the block would not be smaller.
pub fn compress(pack: &Pack, alloc: &dyn SlotAlloc) -> Result<Option<Body>, AllocError> {
    let region = pack.region();
    let mut slot = alloc.alloc(get_maximum_output_size(region.len()))?;
    match compress_into(region, &mut slot) {
        Ok(bytes) if bytes < region.len() => {
            slot.truncate(bytes);
            Ok(Some(Body::Lz4 {
                block: slot.freeze(),
                region_bytes: region.len(),
                lens: pack.lens().collect(),
            }))
        }
        // The block is not smaller than the region, so the pack is sent uncompressed.
        Ok(_) | Err(_) => Ok(None),
    }
}

/// Compresses pieces of a pack, at most 256 KiB in total, to estimate the benefit. Returns the total bytes
/// before and after compression.
pub fn sample(pack: &Pack, alloc: &dyn SlotAlloc) -> Result<(usize, usize), AllocError> {
    let region = pack.region();
    let mut block = alloc.alloc(get_maximum_output_size(SAMPLE_PIECE_BYTES))?;
    let (mut before, mut after) = (0, 0);
    for piece in pieces(region) {
        let bytes = compress_into(piece, &mut block).unwrap_or(piece.len());
        (before, after) = (before + piece.len(), after + bytes.min(piece.len()));
    }
    Ok((before, after))
}

/// Returns the whole of a short region, or pieces spread evenly over a long region.
fn pieces(region: &[u8]) -> impl Iterator<Item = &[u8]> {
    let whole = region.len() <= SAMPLE_PIECES * SAMPLE_PIECE_BYTES;
    let step = if whole {
        SAMPLE_PIECE_BYTES
    } else {
        (region.len() - SAMPLE_PIECE_BYTES) / (SAMPLE_PIECES - 1)
    };
    let from = (0..SAMPLE_PIECES).map(move |piece| piece * step);
    from.map_while(move |from| region.get(from..))
        .map(|rest| &rest[..rest.len().min(SAMPLE_PIECE_BYTES)])
        .filter(|piece| !piece.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_element::HeapAlloc;
    use proptest::prelude::*;

    /// Makes a pack of elements of these lengths. The bytes repeat after `period` bytes.
    fn pack(lens: &[u64], period: usize) -> Pack {
        let ends = lens
            .iter()
            .fold(0, |end: u64, len| end.next_multiple_of(64) + len);
        let mut slot = HeapAlloc.alloc(ends as usize).unwrap();
        for (place, byte) in slot.iter_mut().enumerate() {
            *byte = ((place % period) as u32)
                .wrapping_mul(2_654_435_761)
                .to_be_bytes()[0];
        }
        Pack::from_parts(slot.freeze(), lens).unwrap()
    }

    /// Makes a pack of pseudo-random bytes, which cannot be compressed.
    fn noise(bytes: usize) -> Pack {
        let mut state = 88_172_645_463_325_252_u64;
        let mut slot = HeapAlloc.alloc(bytes).unwrap();
        for byte in slot.iter_mut() {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = state as u8;
        }
        Pack::from_parts(slot.freeze(), &[bytes as u64]).unwrap()
    }

    /// Returns the block of a pack that can be compressed.
    fn block_of(pack: &Pack) -> Slot {
        match compress(pack, &HeapAlloc).unwrap() {
            Some(Body::Lz4 { block, .. }) => block,
            other => panic!("expected a block, found {other:?}"),
        }
    }

    fn slot(bytes: &[u8]) -> Slot {
        let mut slot = HeapAlloc.alloc(bytes.len()).unwrap();
        slot.copy_from_slice(bytes);
        slot.freeze()
    }

    #[test]
    fn what_does_not_shrink_travels_as_it_is() {
        assert!(compress(&noise(4096), &HeapAlloc).unwrap().is_none());
    }

    #[test]
    fn a_sample_predicts_the_packs_size() {
        for bytes in [64, 4096, 70_000, 262_144, 3_000_000] {
            let (before, after) = sample(&noise(bytes), &HeapAlloc).unwrap();
            assert!(
                before == after && before <= 262_144,
                "{bytes}: {before} to {after}"
            );
            assert!(bytes > 262_144 || before == bytes);
            let (before, after) = sample(&pack(&[bytes as u64], 16), &HeapAlloc).unwrap();
            assert!(bytes == 64 || after < before / 4, "{bytes}: {before} to {after}");
        }
        // The first half of the region is noise.
        let mut mixed = vec![0; 1 << 20];
        mixed[..1 << 19].copy_from_slice(noise(1 << 19).region());
        let mixed = Pack::from_parts(slot(&mixed), &[1 << 20]).unwrap();
        let (before, after) = sample(&mixed, &HeapAlloc).unwrap();
        assert!(
            after > before / 3 && after < before * 2 / 3,
            "{before} to {after}"
        );
    }

    #[test]
    fn a_block_of_another_size_is_refused() {
        let pack = pack(&[4096], 16);
        let block = block_of(&pack);
        for region_bytes in [64, 4032, 4160] {
            let body = Body::Lz4 {
                block: block.clone(),
                region_bytes,
                lens: vec![region_bytes as u64],
            };
            assert!(
                matches!(body.open(&HeapAlloc), Err(BodyError::Corrupt(_))),
                "{region_bytes}"
            );
        }
    }

    #[test]
    fn lengths_that_contradict_the_region_are_refused() {
        let pack = pack(&[4096], 16);
        let block = block_of(&pack);
        let body = Body::Lz4 {
            block,
            region_bytes: 4096,
            lens: vec![64, 64],
        };
        assert!(matches!(body.open(&HeapAlloc), Err(BodyError::Pack(_))));
    }

    proptest! {
        #[test]
        fn what_was_compressed_comes_back(lens in prop::collection::vec(1u64..3000, 1..40), period in 1usize..5000) {
            let pack = pack(&lens, period);
            if let Some(body) = compress(&pack, &HeapAlloc).unwrap() {
                let shrinks = matches!(&body, Body::Lz4 { block, .. } if block.len() < pack.region().len());
                prop_assert!(shrinks, "a block that does not shrink");
                prop_assert_eq!(body.len(), lens.len());
                let opened = body.open(&HeapAlloc).unwrap();
                prop_assert_eq!(&opened.region()[..], &pack.region()[..]);
                prop_assert!(opened.lens().eq(lens));
            }
        }

        #[test]
        fn a_damaged_block_never_panics(
            place in any::<prop::sample::Index>(),
            byte: u8,
            keep in any::<prop::sample::Index>(),
        ) {
            let whole = pack(&[2000, 70, 4000], 300);
            let mut block = block_of(&whole).to_vec();
            let at = place.index(block.len());
            block[at] = byte;
            block.truncate(keep.index(block.len()) + 1);
            let lens: Vec<u64> = whole.lens().collect();
            let body = Body::Lz4 { block: slot(&block), region_bytes: whole.region().len(), lens };
            if let Ok(opened) = body.open(&HeapAlloc) {
                prop_assert_eq!(opened.region().len(), whole.region().len());
            }
        }

        #[test]
        fn any_block_whatever_never_panics(block in prop::collection::vec(any::<u8>(), 1..300), region in 1usize..5000) {
            let body = Body::Lz4 { block: slot(&block), region_bytes: region, lens: vec![region as u64] };
            let _ = body.open(&HeapAlloc);
        }
    }
}
