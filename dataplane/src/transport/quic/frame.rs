//! The bytes of a pack on its stream: a fixed header, a table of lengths, the elements (D2.2).
//!
//! Both directions live here. Decoding is a pure machine that is fed chunks of any size, copies each payload byte
//! once, straight to its place in the slot, and takes no memory that was not admitted.

use std::sync::Arc;

use bytes::Bytes;
use millstream_element::{AllocError, Pack, PackError, SlotMut};
use thiserror::Error;

use crate::proto::message::TaskId;
use crate::proto::receive::ReceiveError;
use crate::transport::{Admission, Body, InPack, OutPack};

/// Bytes of the fixed header.
pub const HEADER_BYTES: usize = 48;

/// Elements of one pack at most: the table of a pack stays below 256 KiB.
pub const PACK_ELEMENTS_MAX: u32 = 1 << 16;

const FRAME_VERSION: u8 = 1;
const FLAG_UNIFORM: u8 = 1;
const FLAG_LZ4: u8 = 2;

/// What is wrong with a pack's bytes.
#[derive(Debug, Error)]
pub enum FrameError {
    /// The header is not one of this version.
    #[error("pack header is malformed: {0}")]
    Header(&'static str),
    /// The stream ended early or went on too long.
    #[error("pack of {announced} bytes has {received}")]
    Length {
        /// Bytes the header announced.
        announced: u64,
        /// Bytes that came.
        received: u64,
    },
    /// The elements do not fit the table.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// The elements were not granted.
    #[error(transparent)]
    Refused(#[from] ReceiveError),
    /// There is no memory for what was granted.
    #[error(transparent)]
    Alloc(#[from] AllocError),
}

/// The bytes of a pack before its elements, and its elements without a copy.
pub fn encode(out: OutPack) -> [Bytes; 2] {
    let pack = &out.elements.pack;
    let region_bytes = pack.region().len() as u64;
    let body = match out.compressed {
        Some(compressed) => Bytes::from_owner(compressed.block),
        None => Bytes::from_owner(pack.region().clone()),
    };
    let compressed_flag = if body.len() as u64 == region_bytes { 0 } else { FLAG_LZ4 };
    let first_len = pack.lens().next().unwrap_or_default();
    let uniform = pack.lens().all(|len| len == first_len);
    let table = if uniform { 1 } else { pack.len() };
    let mut head = Vec::with_capacity(HEADER_BYTES + 4 * table);
    head.extend_from_slice(&[FRAME_VERSION, compressed_flag | if uniform { FLAG_UNIFORM } else { 0 }, 0, 0, 0, 0, 0, 0]);
    head.extend_from_slice(&out.elements.task.0.to_le_bytes());
    head.extend_from_slice(&out.elements.first.to_le_bytes());
    head.extend_from_slice(&(pack.len() as u64).to_le_bytes());
    head.extend_from_slice(&region_bytes.to_le_bytes());
    head.extend_from_slice(&(body.len() as u64).to_le_bytes());
    for len in pack.lens().take(table) {
        head.extend_from_slice(&(len as u32).to_le_bytes());
    }
    [Bytes::from(head), body]
}

/// Puts one pack together from the chunks of its stream.
#[derive(Debug)]
pub struct Assembler {
    admission: Arc<dyn Admission>,
    stage: Stage,
    received: u64,
}

#[derive(Debug)]
enum Stage {
    Header { bytes: [u8; HEADER_BYTES], filled: usize },
    Table { header: Header, bytes: Vec<u8>, wanted: usize },
    Body { header: Header, lens: Vec<u64>, slot: SlotMut, filled: usize },
}

#[derive(Debug, Clone, Copy)]
struct Header {
    task: TaskId,
    first: u64,
    elements: u32,
    region_bytes: u64,
    body_bytes: u64,
    is_uniform: bool,
    is_lz4: bool,
}

impl Header {
    fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Self, FrameError> {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        if bytes[0] != FRAME_VERSION {
            return Err(FrameError::Header("unknown version"));
        }
        if bytes[1] & !(FLAG_UNIFORM | FLAG_LZ4) != 0 || bytes[2..8] != [0; 6] {
            return Err(FrameError::Header("unknown flags"));
        }
        let (elements, region_bytes, body_bytes) = (word(24), word(32), word(40));
        let is_lz4 = bytes[1] & FLAG_LZ4 != 0;
        let elements = u32::try_from(elements).ok().filter(|count| (1..=PACK_ELEMENTS_MAX).contains(count));
        let Some(elements) = elements else { return Err(FrameError::Header("no elements, or too many")) };
        if is_lz4 == (body_bytes >= region_bytes) || body_bytes > region_bytes {
            return Err(FrameError::Header("body and region sizes contradict each other"));
        }
        let is_uniform = bytes[1] & FLAG_UNIFORM != 0;
        Ok(Self { task: TaskId(word(8)), first: word(16), elements, region_bytes, body_bytes, is_uniform, is_lz4 })
    }

    fn table_bytes(&self) -> usize {
        4 * if self.is_uniform { 1 } else { self.elements as usize }
    }

    fn lens(&self, table: &[u8]) -> Vec<u64> {
        let mut lens: Vec<u64> =
            table.chunks_exact(4).map(|len| u32::from_le_bytes([len[0], len[1], len[2], len[3]]).into()).collect();
        if let (true, [len]) = (self.is_uniform, lens.as_slice()) {
            lens = vec![*len; self.elements as usize];
        }
        lens
    }
}

impl Assembler {
    /// An empty pack that asks `admission` before it takes memory.
    pub fn new(admission: Arc<dyn Admission>) -> Self {
        Self { admission, stage: Stage::Header { bytes: [0; HEADER_BYTES], filled: 0 }, received: 0 }
    }

    /// Takes the next bytes of the stream.
    pub fn push(&mut self, mut chunk: &[u8]) -> Result<(), FrameError> {
        self.received += chunk.len() as u64;
        while !chunk.is_empty() {
            match &mut self.stage {
                Stage::Header { bytes, filled } => {
                    *filled += move_into(&mut bytes[*filled..], &mut chunk);
                    if *filled == HEADER_BYTES {
                        let header = Header::decode(bytes)?;
                        self.admission.admit(header.task, header.first, header.elements.into(), header.region_bytes)?;
                        let wanted = header.table_bytes();
                        self.stage = Stage::Table { header, bytes: Vec::with_capacity(wanted), wanted };
                    }
                }
                Stage::Table { header, bytes, wanted } => {
                    let count = chunk.len().min(*wanted - bytes.len());
                    bytes.extend_from_slice(&chunk[..count]);
                    chunk = &chunk[count..];
                    if bytes.len() == *wanted {
                        let (header, lens) = (*header, header.lens(bytes));
                        let slot = self.admission.slot_alloc().alloc(header.body_bytes as usize)?;
                        self.stage = Stage::Body { header, lens, slot, filled: 0 };
                    }
                }
                Stage::Body { header, slot, filled, .. } => {
                    let count = move_into(&mut slot[*filled..], &mut chunk);
                    *filled += count;
                    if !chunk.is_empty() {
                        return Err(FrameError::Length { announced: header.body_bytes, received: self.received });
                    }
                }
            }
        }
        Ok(())
    }

    /// The pack, once its stream ended.
    pub fn finish(self) -> Result<InPack, FrameError> {
        match self.stage {
            Stage::Body { header, lens, slot, filled } if filled as u64 == header.body_bytes => {
                let block = slot.freeze();
                let body = if header.is_lz4 {
                    Body::Lz4 { block, region_bytes: header.region_bytes as usize, lens }
                } else {
                    Body::Plain(Pack::from_parts(block, &lens)?)
                };
                Ok(InPack { task: header.task, first: header.first, elements: header.elements.into(), body })
            }
            Stage::Body { header, .. } => {
                Err(FrameError::Length { announced: header.body_bytes, received: self.received })
            }
            Stage::Table { wanted, .. } => {
                Err(FrameError::Length { announced: (HEADER_BYTES + wanted) as u64, received: self.received })
            }
            Stage::Header { .. } => {
                Err(FrameError::Length { announced: HEADER_BYTES as u64, received: self.received })
            }
        }
    }

    /// Payload bytes copied into the slot so far.
    pub fn copied_bytes(&self) -> u64 {
        match &self.stage {
            Stage::Body { filled, .. } => *filled as u64,
            Stage::Header { .. } | Stage::Table { .. } => 0,
        }
    }
}

fn move_into(place: &mut [u8], chunk: &mut &[u8]) -> usize {
    let count = place.len().min(chunk.len());
    place[..count].copy_from_slice(&chunk[..count]);
    *chunk = &chunk[count..];
    count
}
