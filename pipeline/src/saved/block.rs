//! Blocks of elements: how many bytes are stored and unpacked, how many elements there are, checksums, and
//! the elements, each behind its length. The end of a file is a block of no elements that says how many there
//! were.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::graph::Packing;

use super::header::{damaged, number};

/// Bytes of a block at which it is written.
pub(super) const BLOCK_BYTES: usize = 1 << 20;
/// Elements of a block: a place in a file is a block and a number below this.
pub(super) const BLOCK_ELEMENTS_MAX: u32 = 4096;
/// Bytes of a block, which one element can be alone.
const BYTES_MAX: u32 = 2 << 30;
/// How much larger a block of LZ4 can become: more is damage.
const LZ4_RATIO_MAX: usize = 256;

/// The elements of a block, unpacked.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) raw: Vec<u8>,
    pub(super) elements: u32,
}

impl Block {
    /// Adds an element.
    pub(super) fn push(&mut self, element: &[u8]) -> io::Result<()> {
        let len = u32::try_from(element.len())
            .ok()
            .filter(|len| *len < BYTES_MAX / 2);
        let len = len.ok_or_else(|| io::Error::other("an element has more bytes than a block may"))?;
        self.raw.extend_from_slice(&len.to_le_bytes());
        self.raw.extend_from_slice(element);
        self.elements += 1;
        Ok(())
    }

    /// Returns whether it is to be written before anything is added.
    pub(super) fn is_full(&self) -> bool {
        self.raw.len() >= BLOCK_BYTES || self.elements >= BLOCK_ELEMENTS_MAX
    }

    /// Writes it; its bytes.
    pub(super) fn write(&self, packing: Packing, into: &mut impl Write) -> io::Result<u64> {
        let packed;
        let stored = match packing {
            Packing::None => &self.raw,
            Packing::Lz4 => {
                packed = lz4_flex::block::compress(&self.raw);
                &packed
            }
            Packing::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(&self.raw)?;
                packed = encoder.finish()?;
                &packed
            }
        };
        let too_large = |_| io::Error::other("a block has too many bytes");
        let mut head = Vec::with_capacity(20);
        let lengths = [stored.len(), self.raw.len()];
        for len in lengths {
            head.extend_from_slice(&u32::try_from(len).map_err(too_large)?.to_le_bytes());
        }
        head.extend_from_slice(&self.elements.to_le_bytes());
        head.extend_from_slice(&crc32c::crc32c(stored).to_le_bytes());
        head.extend_from_slice(&crc32c::crc32c(&head).to_le_bytes());
        into.write_all(&head)?;
        into.write_all(stored)?;
        Ok((head.len() + stored.len()) as u64)
    }

    /// Reads one; with its bytes.
    pub(super) fn read(packing: Packing, from: &mut impl Read) -> io::Result<(Block, u64)> {
        let mut head = [0; 16];
        from.read_exact(&mut head)?;
        if crc32c::crc32c(&head) != number(from)? {
            return Err(damaged("a block is damaged"));
        }
        let field = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (stored_len, raw_len, elements) = (field(0), field(4), field(8));
        if stored_len > BYTES_MAX || raw_len > BYTES_MAX || elements > BLOCK_ELEMENTS_MAX {
            return Err(damaged("a block is larger than one may be"));
        }
        // Memory is taken as bytes come, not as the head says.
        let mut stored = Vec::new();
        from.take(u64::from(stored_len)).read_to_end(&mut stored)?;
        if stored.len() != stored_len as usize {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if crc32c::crc32c(&stored) != field(12) {
            return Err(damaged("a block is damaged"));
        }
        let raw = unpacked(packing, stored, raw_len as usize)?;
        let bytes = head.len() as u64 + 4 + u64::from(stored_len);
        Ok((Block { raw, elements }, bytes))
    }
}

fn unpacked(packing: Packing, stored: Vec<u8>, raw_len: usize) -> io::Result<Vec<u8>> {
    let raw = match packing {
        Packing::None => stored,
        Packing::Lz4 if raw_len > stored.len().saturating_mul(LZ4_RATIO_MAX) => {
            return Err(damaged("a block is damaged"));
        }
        Packing::Lz4 => lz4_flex::block::decompress(&stored, raw_len)
            .map_err(|error| damaged(&format!("a block cannot be unpacked: {error}")))?,
        Packing::Gzip => {
            let mut raw = Vec::new();
            let mut decoder = GzDecoder::new(&stored[..]).take(raw_len as u64 + 1);
            decoder.read_to_end(&mut raw)?;
            raw
        }
    };
    if raw.len() == raw_len {
        Ok(raw)
    } else {
        Err(damaged("a block does not have the bytes that it says"))
    }
}
