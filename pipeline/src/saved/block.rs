//! Blocks of elements in a file. A block begins with its stored size, its uncompressed size, its number of
//! elements, and checksums. Each element follows its length. A block without elements ends a file, and holds
//! the number of elements in the file.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::graph::Packing;

use super::header::{damaged, number};

/// The uncompressed size in bytes at which a block is written.
pub(super) const BLOCK_BYTES: usize = 1 << 20;
/// The maximum number of elements in a block. A position in a file combines the start of a block and a number
/// below this limit.
pub(super) const BLOCK_ELEMENTS_MAX: u32 = 4096;
/// The maximum number of bytes in a block, which a single large element can reach.
const BYTES_MAX: u32 = 2 << 30;
/// The number of bytes of a block's header.
const HEAD_BYTES: u64 = 20;
/// The maximum ratio of uncompressed to stored size of an LZ4 block. A larger ratio is a sign of damage.
const LZ4_RATIO_MAX: usize = 256;

/// The elements of a block, uncompressed.
#[derive(Debug, Default)]
pub(super) struct Block {
    pub(super) raw: Vec<u8>,
    pub(super) elements: u32,
}

impl Block {
    /// Adds an element to the block.
    pub(super) fn push(&mut self, element: &[u8]) -> io::Result<()> {
        let len = u32::try_from(element.len())
            .ok()
            .filter(|len| *len < BYTES_MAX / 2);
        let len =
            len.ok_or_else(|| io::Error::other("an element has more bytes than the limit of a block"))?;
        self.raw.extend_from_slice(&len.to_le_bytes());
        self.raw.extend_from_slice(element);
        self.elements += 1;
        Ok(())
    }

    /// Returns whether the block must be written before another element is added.
    pub(super) fn is_full(&self) -> bool {
        self.raw.len() >= BLOCK_BYTES || self.elements >= BLOCK_ELEMENTS_MAX
    }

    /// Writes the block, and returns the number of bytes written.
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
        let too_large = |_| io::Error::other("a block exceeds the limit of 4 GiB");
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

    /// Reads a block, and returns the block and the number of bytes read.
    pub(super) fn read(packing: Packing, from: &mut impl Read) -> io::Result<(Block, u64)> {
        let head = Head::read(from)?;
        let block = head.block(packing, from)?;
        Ok((block, HEAD_BYTES + u64::from(head.stored_len)))
    }
}

/// The header of a block, before its stored bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    /// The number of stored bytes that follow.
    pub(super) stored_len: u32,
    raw_len: u32,
    pub(super) elements: u32,
    /// The checksum of the stored bytes.
    crc: u32,
}

impl Head {
    /// Reads the header of a block.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Head> {
        let mut head = [0; 16];
        from.read_exact(&mut head)?;
        if crc32c::crc32c(&head) != number(from)? {
            return Err(damaged("the header of a block is damaged: its checksum differs"));
        }
        let field = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (stored_len, raw_len, elements) = (field(0), field(4), field(8));
        if stored_len > BYTES_MAX || raw_len > BYTES_MAX || elements > BLOCK_ELEMENTS_MAX {
            return Err(damaged(
                "the header of a block is damaged: its sizes exceed the limits",
            ));
        }
        Ok(Head {
            stored_len,
            raw_len,
            elements,
            crc: field(12),
        })
    }

    /// Reads the stored bytes of the block, which follow the header.
    pub(super) fn block(&self, packing: Packing, from: &mut impl Read) -> io::Result<Block> {
        // Memory grows with the bytes that are read, because the stored size may be wrong.
        let mut stored = Vec::new();
        from.take(u64::from(self.stored_len)).read_to_end(&mut stored)?;
        if stored.len() != self.stored_len as usize {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if crc32c::crc32c(&stored) != self.crc {
            return Err(damaged("a block is damaged: its checksum differs"));
        }
        let raw = unpacked(packing, stored, self.raw_len as usize)?;
        Ok(Block {
            raw,
            elements: self.elements,
        })
    }
}

fn unpacked(packing: Packing, stored: Vec<u8>, raw_len: usize) -> io::Result<Vec<u8>> {
    let raw = match packing {
        Packing::None => stored,
        Packing::Lz4 if raw_len > stored.len().saturating_mul(LZ4_RATIO_MAX) => {
            return Err(damaged("a block is damaged: its uncompressed size is too large"));
        }
        Packing::Lz4 => lz4_flex::block::decompress(&stored, raw_len)
            .map_err(|error| damaged(&format!("a block cannot be decompressed: {error}")))?,
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
        Err(damaged(
            "a block is damaged: its uncompressed size differs from the header",
        ))
    }
}
