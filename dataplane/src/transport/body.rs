//! The elements of a pack as they travel: plain, or compressed as one block.
//!
//! Compression runs on the worker's pool, decompression on the reader's thread at hand-over; neither runs where
//! sockets are served. Refuses to know links and credits.

use lz4_flex::block::{compress_into, decompress_into, get_maximum_output_size};
use millstream_element::{AllocError, Pack, PackError, Slot, SlotAlloc};
use thiserror::Error;

/// How elements are compressed on a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// LZ4 blocks, one a pack, unless a pack grows by it.
    Lz4,
}

impl Compression {
    /// The name used on command lines and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
        }
    }
}

impl std::str::FromStr for Compression {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "lz4" => Ok(Self::Lz4),
            other => Err(format!("unknown compression `{other}`; known are `none` and `lz4`")),
        }
    }
}

/// A pack's region as one LZ4 block.
#[derive(Debug, Clone)]
pub struct Compressed {
    /// The block.
    pub block: Slot,
}

/// Elements as they arrived.
#[derive(Debug, Clone)]
pub enum Body {
    /// Ready to be read.
    Plain(Pack),
    /// To be decompressed first.
    Lz4 {
        /// The block.
        block: Slot,
        /// Bytes the block must come to.
        region_bytes: usize,
        /// Length of each element, in bytes.
        lens: Vec<u64>,
    },
}

/// Why a body cannot be opened; the peer's fault except for `Alloc`.
#[derive(Debug, Error)]
pub enum BodyError {
    /// The block does not decompress to what was announced.
    #[error("compressed pack cannot be restored: {0}")]
    Corrupt(String),
    /// The restored elements contradict their table.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// There is no memory for the restored elements.
    #[error(transparent)]
    Alloc(#[from] AllocError),
}

impl Body {
    /// The elements, decompressed into a slot of `alloc` if need be.
    pub fn open(self, alloc: &dyn SlotAlloc) -> Result<Pack, BodyError> {
        match self {
            Self::Plain(pack) => Ok(pack),
            Self::Lz4 { block, region_bytes, lens } => {
                let mut slot = alloc.alloc(region_bytes)?;
                let restored =
                    decompress_into(&block, &mut slot).map_err(|error| BodyError::Corrupt(error.to_string()))?;
                if restored != region_bytes {
                    let message = format!("{restored} bytes instead of {region_bytes}");
                    return Err(BodyError::Corrupt(message));
                }
                Ok(Pack::from_parts(slot.freeze(), &lens)?)
            }
        }
    }
}

/// Compresses a pack's region, or says that it is not worth it.
pub fn compress(pack: &Pack, alloc: &dyn SlotAlloc) -> Result<Option<Compressed>, AllocError> {
    let region = pack.region();
    let mut slot = alloc.alloc(get_maximum_output_size(region.len()))?;
    match compress_into(region, &mut slot) {
        Ok(bytes) if bytes < region.len() => {
            slot.truncate(bytes);
            Ok(Some(Compressed { block: slot.freeze() }))
        }
        // Larger than before, or larger than the bound it cannot exceed: it travels as it is.
        Ok(_) | Err(_) => Ok(None),
    }
}
