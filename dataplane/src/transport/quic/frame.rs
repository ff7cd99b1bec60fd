//! Encodes and decodes the bytes of a pack on its stream: a fixed header, a table of lengths, and the
//! elements (D2.2).
//!
//! Decoding is a pure state machine that accepts chunks of any size. Each payload byte is copied once,
//! directly to its place in the slot. No memory is allocated for a pack that was not admitted.

use std::sync::Arc;

use bytes::Bytes;
use millstream_element::{AllocError, Pack, PackError, SlotMut};
use thiserror::Error;

use crate::proto::message::TaskId;
use crate::proto::receive::ReceiveError;
use crate::proto::send::TaskPack;
use crate::transport::{Admission, Body};

/// The size of the fixed header, in bytes.
pub const HEADER_BYTES: usize = 48;

/// Maximum number of elements in a pack. The limit keeps the table of a pack below 256 KiB.
pub const PACK_ELEMENTS_MAX: u32 = 1 << 16;

const FRAME_VERSION: u8 = 1;
const FLAG_UNIFORM: u8 = 1;
const FLAG_LZ4: u8 = 2;

/// The error for a pack whose bytes are invalid or cannot be accepted.
#[derive(Debug, Error)]
pub enum FrameError {
    /// The header is not a valid header of this version.
    #[error("invalid pack header: {0}")]
    Header(&'static str),
    /// The stream is shorter or longer than its header announced.
    #[error("expected a pack of {announced} bytes, found {received} bytes")]
    Length {
        /// The size that the header announced, in bytes.
        announced: u64,
        /// The number of bytes that arrived.
        received: u64,
    },
    /// The elements do not match the table of lengths.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// The client did not grant the elements.
    #[error(transparent)]
    Refused(#[from] ReceiveError),
    /// No memory is available for the granted elements.
    #[error(transparent)]
    Alloc(#[from] AllocError),
}

/// Encodes a pack. Returns the header with its table, and the elements without a copy.
pub fn encode(out: TaskPack<Body>) -> [Bytes; 2] {
    let (task, first) = (out.task, out.first);
    match out.pack {
        Body::Plain(pack) => {
            let body = Bytes::from_owner(pack.region().clone());
            let region_bytes = body.len() as u64;
            [head(task, first, 0, region_bytes, &body, pack.lens()), body]
        }
        Body::Lz4 {
            block,
            region_bytes,
            lens,
        } => {
            let body = Bytes::from_owner(block);
            let lens = lens.iter().copied();
            let head = head(task, first, FLAG_LZ4, region_bytes as u64, &body, lens);
            [head, body]
        }
    }
}

/// Returns the header of a pack with the table of its elements' lengths.
fn head(
    task: TaskId,
    first: u64,
    flags: u8,
    region_bytes: u64,
    body: &Bytes,
    lens: impl ExactSizeIterator<Item = u64> + Clone,
) -> Bytes {
    let elements = lens.len();
    let first_len = lens.clone().next().unwrap_or_default();
    let uniform = lens.clone().all(|len| len == first_len);
    let table = if uniform { 1 } else { elements };
    let mut head = Vec::with_capacity(HEADER_BYTES + 4 * table);
    let uniform_flag = if uniform { FLAG_UNIFORM } else { 0 };
    head.extend_from_slice(&[FRAME_VERSION, flags | uniform_flag, 0, 0, 0, 0, 0, 0]);
    head.extend_from_slice(&task.0.to_le_bytes());
    head.extend_from_slice(&first.to_le_bytes());
    head.extend_from_slice(&(elements as u64).to_le_bytes());
    head.extend_from_slice(&region_bytes.to_le_bytes());
    head.extend_from_slice(&(body.len() as u64).to_le_bytes());
    for len in lens.take(table) {
        // Producers keep elements within `ELEMENT_BYTES_MAX`.
        debug_assert!(
            u32::try_from(len).is_ok(),
            "an element of {len} bytes exceeds 32 bits"
        );
        head.extend_from_slice(&(len as u32).to_le_bytes());
    }
    Bytes::from(head)
}

/// A decoder that assembles one pack from the chunks of its stream.
#[derive(Debug)]
pub struct Assembler {
    admission: Arc<dyn Admission>,
    stage: Stage,
    received: u64,
    /// The task that the header named, after a valid header arrived.
    task: Option<TaskId>,
}

#[derive(Debug)]
enum Stage {
    Header {
        bytes: [u8; HEADER_BYTES],
        filled: usize,
    },
    Table {
        header: Header,
        bytes: Vec<u8>,
        wanted: usize,
    },
    Body {
        header: Header,
        lens: Vec<u64>,
        slot: SlotMut,
        filled: usize,
    },
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
        let elements = u32::try_from(elements)
            .ok()
            .filter(|count| (1..=PACK_ELEMENTS_MAX).contains(count));
        let Some(elements) = elements else {
            return Err(FrameError::Header("expected 1 to 65536 elements"));
        };
        if is_lz4 == (body_bytes >= region_bytes) || body_bytes > region_bytes {
            return Err(FrameError::Header("body and region sizes contradict each other"));
        }
        let is_uniform = bytes[1] & FLAG_UNIFORM != 0;
        Ok(Self {
            task: TaskId(word(8)),
            first: word(16),
            elements,
            region_bytes,
            body_bytes,
            is_uniform,
            is_lz4,
        })
    }

    fn table_bytes(&self) -> usize {
        4 * if self.is_uniform {
            1
        } else {
            self.elements as usize
        }
    }

    /// Returns the size of the whole stream, in bytes.
    fn pack_bytes(&self) -> u64 {
        (HEADER_BYTES + self.table_bytes()) as u64 + self.body_bytes
    }

    fn lens(&self, table: &[u8]) -> Vec<u64> {
        let mut lens: Vec<u64> = table
            .chunks_exact(4)
            .map(|len| u32::from_le_bytes([len[0], len[1], len[2], len[3]]).into())
            .collect();
        if let (true, [len]) = (self.is_uniform, lens.as_slice()) {
            lens = vec![*len; self.elements as usize];
        }
        lens
    }
}

impl Assembler {
    /// Makes a decoder that asks `admission` before it allocates memory.
    pub fn new(admission: Arc<dyn Admission>) -> Self {
        Self {
            admission,
            stage: Stage::Header {
                bytes: [0; HEADER_BYTES],
                filled: 0,
            },
            received: 0,
            task: None,
        }
    }

    /// Consumes the next bytes of the stream.
    pub fn push(&mut self, mut chunk: &[u8]) -> Result<(), FrameError> {
        self.received += chunk.len() as u64;
        while !chunk.is_empty() {
            match &mut self.stage {
                Stage::Header { bytes, filled } => {
                    *filled += move_into(&mut bytes[*filled..], &mut chunk);
                    if *filled == HEADER_BYTES {
                        let header = Header::decode(bytes)?;
                        self.task = Some(header.task);
                        self.admission.admit(
                            header.task,
                            header.first,
                            header.elements.into(),
                            header.region_bytes,
                        )?;
                        let wanted = header.table_bytes();
                        self.stage = Stage::Table {
                            header,
                            bytes: Vec::with_capacity(wanted),
                            wanted,
                        };
                    }
                }
                Stage::Table {
                    header,
                    bytes,
                    wanted,
                } => {
                    let count = chunk.len().min(*wanted - bytes.len());
                    bytes.extend_from_slice(&chunk[..count]);
                    chunk = &chunk[count..];
                    if bytes.len() == *wanted {
                        let (header, lens) = (*header, header.lens(bytes));
                        let slot = self.admission.slot_alloc().alloc(header.body_bytes as usize)?;
                        self.stage = Stage::Body {
                            header,
                            lens,
                            slot,
                            filled: 0,
                        };
                    }
                }
                Stage::Body {
                    header, slot, filled, ..
                } => {
                    let count = move_into(&mut slot[*filled..], &mut chunk);
                    *filled += count;
                    if !chunk.is_empty() {
                        return Err(FrameError::Length {
                            announced: header.pack_bytes(),
                            received: self.received,
                        });
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the pack after the end of its stream.
    pub fn finish(self) -> Result<TaskPack<Body>, FrameError> {
        match self.stage {
            Stage::Body {
                header,
                lens,
                slot,
                filled,
            } if filled as u64 == header.body_bytes => {
                let block = slot.freeze();
                let body = if header.is_lz4 {
                    Body::Lz4 {
                        block,
                        region_bytes: header.region_bytes as usize,
                        lens,
                    }
                } else {
                    Body::Plain(Pack::from_parts(block, &lens)?)
                };
                Ok(TaskPack {
                    task: header.task,
                    first: header.first,
                    pack: body,
                })
            }
            Stage::Body { header, .. } => Err(FrameError::Length {
                announced: header.pack_bytes(),
                received: self.received,
            }),
            Stage::Table { wanted, .. } => Err(FrameError::Length {
                announced: (HEADER_BYTES + wanted) as u64,
                received: self.received,
            }),
            Stage::Header { .. } => Err(FrameError::Length {
                announced: HEADER_BYTES as u64,
                received: self.received,
            }),
        }
    }

    /// Returns the task of the pack, if its header has arrived.
    pub fn task(&self) -> Option<TaskId> {
        self.task
    }

    /// Returns the number of payload bytes copied into the slot so far.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::body;
    use millstream_element::{HeapAlloc, SlotAlloc};
    use parking_lot::Mutex;
    use proptest::prelude::*;

    /// An admission that accepts packs up to a size and records all admissions and allocations.
    #[derive(Debug)]
    struct Recorder {
        region_bytes_max: u64,
        admitted: Mutex<Vec<(u64, u64, u64)>>,
        allocated: Mutex<u64>,
    }

    impl Recorder {
        fn up_to(region_bytes_max: u64) -> Arc<Self> {
            Arc::new(Self {
                region_bytes_max,
                admitted: Mutex::default(),
                allocated: Mutex::default(),
            })
        }
    }

    impl Admission for Recorder {
        fn admit(&self, _: TaskId, first: u64, elements: u64, region_bytes: u64) -> Result<(), ReceiveError> {
            if region_bytes > self.region_bytes_max {
                let element_bytes = self.region_bytes_max;
                return Err(ReceiveError::Oversized {
                    region_bytes,
                    elements,
                    element_bytes,
                });
            }
            self.admitted.lock().push((first, elements, region_bytes));
            Ok(())
        }

        fn slot_alloc(&self) -> &dyn SlotAlloc {
            self
        }
    }

    impl SlotAlloc for Recorder {
        fn alloc(&self, size_bytes: usize) -> Result<SlotMut, AllocError> {
            *self.allocated.lock() += size_bytes as u64;
            let admitted: u64 = self.admitted.lock().iter().map(|(_, _, bytes)| bytes).sum();
            assert!(
                *self.allocated.lock() <= admitted,
                "more memory was allocated than was admitted"
            );
            HeapAlloc.alloc(size_bytes)
        }
    }

    fn pack(lens: &[u64]) -> Pack {
        let end = lens
            .iter()
            .fold(0, |end: u64, len| end.next_multiple_of(64) + len);
        let mut slot = HeapAlloc.alloc(end as usize).unwrap();
        for (place, byte) in slot.iter_mut().enumerate() {
            *byte = (place / 7 % 251) as u8;
        }
        Pack::from_parts(slot.freeze(), lens).unwrap()
    }

    fn bytes_of(pack: &Pack, first: u64, is_compressed: bool) -> Vec<u8> {
        let compressed = is_compressed.then(|| body::compress(pack, &HeapAlloc).unwrap());
        let body = compressed.flatten().unwrap_or_else(|| pack.clone().into());
        encode(TaskPack {
            task: TaskId(3),
            first,
            pack: body,
        })
        .concat()
    }

    fn assemble(admission: Arc<Recorder>, bytes: &[u8], chunk: usize) -> Result<TaskPack<Body>, FrameError> {
        let mut assembler = Assembler::new(admission);
        for chunk in bytes.chunks(chunk) {
            assembler.push(chunk)?;
        }
        assembler.finish()
    }

    /// Returns the bytes of a valid pack after overwriting some words of its header.
    fn header(changes: &[(usize, u64)]) -> Vec<u8> {
        let mut bytes = bytes_of(&pack(&[64, 64]), 0, false);
        for (at, word) in changes {
            bytes[*at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// D2.2.
    #[test]
    fn lying_headers_are_refused_before_allocation() {
        let version_2 = 2;
        let unknown_flag = 1 | 4 << 8;
        let reserved = 1 | 1 << 8 | 1 << 56;
        let lz4 = 1 | 3 << 8;
        let cases: &[(&str, &[(usize, u64)])] = &[
            ("version", &[(0, version_2)]),
            ("flag", &[(0, unknown_flag)]),
            ("reserved", &[(0, reserved)]),
            ("no elements", &[(24, 0)]),
            ("too many elements", &[(24, u64::from(PACK_ELEMENTS_MAX) + 1)]),
            ("absurdly many elements", &[(24, u64::MAX)]),
            ("region beyond what is admitted", &[(32, 1 << 20), (40, 1 << 20)]),
            ("absurd region", &[(32, u64::MAX), (40, u64::MAX)]),
            ("plain body smaller than its region", &[(40, 64)]),
            ("plain body larger than its region", &[(40, 256)]),
            ("block as large as its region", &[(0, lz4)]),
            ("block larger than its region", &[(0, lz4), (40, u64::MAX)]),
            ("small block of an absurd region", &[(0, lz4), (32, u64::MAX)]),
        ];
        for (case, changes) in cases {
            let admission = Recorder::up_to(4096);
            let mut assembler = Assembler::new(admission.clone());
            let outcome = assembler.push(&header(changes)[..HEADER_BYTES]);
            assert!(
                matches!(outcome, Err(FrameError::Header(_) | FrameError::Refused(_))),
                "{case}: {outcome:?}"
            );
            assert_eq!(*admission.allocated.lock(), 0, "{case}");
        }
    }

    #[test]
    fn a_table_must_cover_its_region() {
        for len in [0u32, 1, 65, 200, u32::MAX] {
            let mut bytes = header(&[]);
            bytes[HEADER_BYTES..HEADER_BYTES + 4].copy_from_slice(&len.to_le_bytes());
            let outcome = assemble(Recorder::up_to(4096), &bytes, usize::MAX);
            assert!(matches!(outcome, Err(FrameError::Pack(_))), "{len}: {outcome:?}");
        }
        let nothing = header(&[(32, 0), (40, 0)]);
        let outcome = assemble(Recorder::up_to(4096), &nothing[..HEADER_BYTES + 4], usize::MAX);
        assert!(
            outcome.is_err(),
            "a pack of elements without bytes was accepted: {outcome:?}"
        );
    }

    fn lens() -> impl Strategy<Value = Vec<u64>> {
        let uniform = (1u64..2000, 1usize..60).prop_map(|(len, count)| vec![len; count]);
        prop_oneof![uniform, prop::collection::vec(1u64..2000, 1..60)]
    }

    proptest! {
        /// D2.2, D2.3.
        #[test]
        fn a_pack_survives_any_chunking(lens in lens(), first: u64, chunk in 1usize..4000, lz4: bool) {
            let pack = pack(&lens);
            let region_bytes = pack.region().len() as u64;
            let admission = Recorder::up_to(region_bytes);
            let received = assemble(admission.clone(), &bytes_of(&pack, first, lz4), chunk).unwrap();
            prop_assert_eq!((received.task, received.first, received.pack.len() as u64), (TaskId(3), first, lens.len() as u64));
            prop_assert_eq!(&*admission.admitted.lock(), &vec![(first, lens.len() as u64, region_bytes)]);
            let opened = received.pack.open(&HeapAlloc).unwrap();
            prop_assert_eq!(&opened.region()[..], &pack.region()[..]);
            prop_assert!(opened.lens().eq(lens));
        }

        #[test]
        fn truncated_and_overlong_streams_are_refused(lens in lens(), keep in any::<prop::sample::Index>(), lz4: bool) {
            let mut bytes = bytes_of(&pack(&lens), 0, lz4);
            let cut = assemble(Recorder::up_to(1 << 20), &bytes[..keep.index(bytes.len())], 1000);
            let is_length = matches!(cut, Err(FrameError::Length { announced, received }) if received < announced);
            prop_assert!(is_length, "{:?}", cut);
            let whole = bytes.len() as u64;
            bytes.push(0);
            let long = assemble(Recorder::up_to(1 << 20), &bytes, 1000);
            let is_length = matches!(long, Err(FrameError::Length { announced, received })
                if (announced, received) == (whole, whole + 1));
            prop_assert!(is_length, "{:?}", long);
        }

        /// The recorder panics when the decoder allocates more memory than was admitted.
        #[test]
        fn random_bytes_neither_panic_nor_allocate(
            mut bytes in prop::collection::vec(any::<u8>(), 0..400),
            sound in 0usize..49,
            chunk in 1usize..100,
        ) {
            let start = bytes_of(&pack(&[40, 80]), 0, false);
            let sound = sound.min(bytes.len());
            bytes[..sound].copy_from_slice(&start[..sound]);
            if let Ok(pack) = assemble(Recorder::up_to(4096), &bytes, chunk) {
                let _ = pack.pack.open(&HeapAlloc);
            }
        }
    }
}
