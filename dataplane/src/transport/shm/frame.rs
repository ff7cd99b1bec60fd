//! The frames of a ring: messages, descriptors of packs, and notices about arenas, encoded in words of 64
//! bits (D10.5).
//!
//! The module is pure. Decoding reads a private copy of a frame and checks every value. Rings and arenas are
//! unknown to the module.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use smallvec::SmallVec;
use thiserror::Error;

use super::layout::FRAME_WORDS_MAX;
use crate::proto::message::{MessageError, TaskId, check_length, decode, encode};
use crate::transport::LinkLost;

/// Maximum number of elements in one descriptor. A larger pack is sent in several parts.
pub(super) const PACK_ELEMENTS_MAX: usize = 8192;

const _: () = assert!(PACK_WORDS + PACK_ELEMENTS_MAX / 2 <= FRAME_WORDS_MAX);

const KIND_MESSAGE: u64 = 1;
const KIND_PACK: u64 = 2;
const KIND_SHARE: u64 = 3;
const KIND_FORGET: u64 = 4;
const KIND_MASK: u64 = 0xff;
/// The flag of a descriptor whose elements all have one length, so that its table has one entry.
const FLAG_UNIFORM: u64 = 1 << 8;
/// The flag of a pack whose memory other readers read too.
const FLAG_SHARED: u64 = 1 << 9;
const FLAGS: u64 = FLAG_UNIFORM | FLAG_SHARED;

/// The number of words of a descriptor before its table.
const PACK_WORDS: usize = 8;

/// The lengths of a pack's elements, in bytes. Most descriptors list few elements.
pub(super) type Lens = SmallVec<[u64; 4]>;

/// The descriptor of a pack, which states where its elements are located.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PackFrame {
    /// The task that produced the elements.
    pub task: TaskId,
    /// The number of elements of the subscription before this pack.
    pub first: u64,
    /// The number of the arena that contains the elements.
    pub arena: u64,
    /// The offset of the first element in the arena, in bytes.
    pub offset: u64,
    /// The number of bytes from the start of the first element to the end of the last element.
    pub region_bytes: u64,
    /// The lease that the reader returns when it no longer needs the elements.
    pub lease: u64,
    /// True if other readers read the same memory, so that no reader may write to it.
    pub is_shared: bool,
    /// The length of each element, in bytes.
    pub lens: Lens,
}

/// A frame that a worker puts on its ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame<M> {
    /// A message.
    Message(M),
    /// A pack of elements.
    Pack(PackFrame),
    /// The number of bytes of an arena that the reader may keep before it copies.
    Share {
        /// The arena.
        arena: u64,
        /// The number of bytes that the reader may keep.
        hold_bytes: u64,
    },
    /// The notice that no further pack follows in an arena.
    Forget {
        /// The arena.
        arena: u64,
    },
}

/// The error for a frame that no correct peer writes.
#[derive(Debug, Error, PartialEq, Eq)]
pub(super) enum FrameError {
    /// The kind of the frame is unknown, or not allowed here.
    #[error("a frame of unknown kind {kind:#x}")]
    Kind {
        /// The first word of the frame.
        kind: u64,
    },
    /// The length of the frame does not match its contents.
    #[error("expected a frame of {said} words, found {words} words")]
    Length {
        /// The number of words in the frame.
        words: usize,
        /// The number of words that the frame's contents require.
        said: u64,
    },
    /// The message in the frame is invalid.
    #[error(transparent)]
    Message(#[from] MessageError),
}

impl From<FrameError> for LinkLost {
    fn from(error: FrameError) -> Self {
        Self::Misbehaved(error.to_string())
    }
}

/// Encodes a message as a frame.
///
/// # Errors
/// Returns an error if the message exceeds the maximum length, which is the sender's own fault.
pub(super) fn write_message<M: Encode<()>>(message: &M, into: &mut Vec<u64>) -> Result<(), MessageError> {
    let bytes = encode(message)?;
    into.clear();
    into.extend([KIND_MESSAGE, bytes.len() as u64]);
    into.extend(bytes.chunks(8).map(word));
    Ok(())
}

/// Encodes the descriptor of a pack, which has 1 to [`PACK_ELEMENTS_MAX`] elements.
pub(super) fn write_pack(pack: &PackFrame, into: &mut Vec<u64>) {
    debug_assert!((1..=PACK_ELEMENTS_MAX).contains(&pack.lens.len()));
    let first_len = pack.lens.first().copied().unwrap_or_default();
    let is_uniform = pack.lens.iter().all(|len| *len == first_len);
    let flags = if is_uniform { FLAG_UNIFORM } else { 0 } | if pack.is_shared { FLAG_SHARED } else { 0 };
    into.clear();
    into.extend([
        KIND_PACK | flags,
        pack.task.0,
        pack.first,
        pack.arena,
        pack.offset,
        pack.region_bytes,
        pack.lease,
        pack.lens.len() as u64,
    ]);
    let table = if is_uniform { 1 } else { pack.lens.len() };
    // Each length fits 32 bits (D2.2), so two lengths share a word.
    let pair = |pair: &[u64]| pair[0] | pair.get(1).map_or(0, |second| second << 32);
    into.extend(pack.lens[..table].chunks(2).map(pair));
}

/// Encodes the notice of the reader's share of an arena.
pub(super) fn write_share(arena: u64, hold_bytes: u64, into: &mut Vec<u64>) {
    into.clear();
    into.extend([KIND_SHARE, arena, hold_bytes]);
}

/// Encodes the notice that no further pack follows in an arena.
pub(super) fn write_forget(arena: u64, into: &mut Vec<u64>) {
    into.clear();
    into.extend([KIND_FORGET, arena]);
}

/// Decodes a frame whose messages have type `M`.
///
/// # Errors
/// Returns a [`FrameError`] if the frame is invalid, which is the peer's fault.
pub(super) fn read<M>(words: &[u64]) -> Result<Frame<M>, FrameError>
where
    M: for<'b> Decode<'b, ()>,
{
    let kind = words.first().copied().unwrap_or_default();
    match kind & KIND_MASK {
        KIND_MESSAGE if kind == KIND_MESSAGE => Ok(Frame::Message(read_message(words)?)),
        KIND_PACK if kind & !(KIND_MASK | FLAGS) == 0 => Ok(Frame::Pack(read_pack(kind, words)?)),
        KIND_SHARE if kind == KIND_SHARE => match *words {
            [_, arena, hold_bytes] => Ok(Frame::Share { arena, hold_bytes }),
            _ => Err(length(words, 3)),
        },
        KIND_FORGET if kind == KIND_FORGET => match *words {
            [_, arena] => Ok(Frame::Forget { arena }),
            _ => Err(length(words, 2)),
        },
        _ => Err(FrameError::Kind { kind }),
    }
}

fn read_message<M>(words: &[u64]) -> Result<M, FrameError>
where
    M: for<'b> Decode<'b, ()>,
{
    let [_, said, body @ ..] = words else {
        return Err(length(words, 2));
    };
    let bytes = usize::try_from(*said).unwrap_or(usize::MAX);
    check_length(bytes)?;
    if body.len() != bytes.div_ceil(8) {
        return Err(length(words, 2 + bytes.div_ceil(8) as u64));
    }
    let mut text: Vec<u8> = body.iter().flat_map(|word| word.to_le_bytes()).collect();
    text.truncate(bytes);
    Ok(decode(&text)?)
}

fn read_pack(kind: u64, words: &[u64]) -> Result<PackFrame, FrameError> {
    let [
        _,
        task,
        first,
        arena,
        offset,
        region_bytes,
        lease,
        elements,
        table @ ..,
    ] = words
    else {
        return Err(length(words, PACK_WORDS as u64));
    };
    let listed = if kind & FLAG_UNIFORM == 0 { *elements } else { 1 };
    if *elements == 0 || *elements > PACK_ELEMENTS_MAX as u64 || table.len() as u64 != listed.div_ceil(2) {
        return Err(length(
            words,
            (PACK_WORDS as u64).saturating_add(listed.div_ceil(2)),
        ));
    }
    let halves = |word: &u64| [*word & u64::from(u32::MAX), *word >> 32];
    let lens: Lens = match table {
        [len] if listed == 1 => std::iter::repeat_n(halves(len)[0], *elements as usize).collect(),
        table => table.iter().flat_map(halves).take(*elements as usize).collect(),
    };
    Ok(PackFrame {
        task: TaskId(*task),
        first: *first,
        arena: *arena,
        offset: *offset,
        region_bytes: *region_bytes,
        lease: *lease,
        is_shared: kind & FLAG_SHARED != 0,
        lens,
    })
}

fn length(words: &[u64], said: u64) -> FrameError {
    FrameError::Length {
        words: words.len(),
        said,
    }
}

/// Returns up to eight bytes as a word, padded with zeroes.
fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::proto::message::{ToClient, Yielded};

    prop_compose! {
        fn packs()(
            lens in prop_oneof![
                prop::collection::vec(1_u64..1 << 32, 1..20),
                (1_u64..1 << 32, 1_usize..PACK_ELEMENTS_MAX).prop_map(|(len, count)| vec![len; count]),
            ],
            words in prop::array::uniform6(any::<u64>()),
            is_shared: bool,
        ) -> PackFrame {
            let [task, first, arena, offset, region_bytes, lease] = words;
            PackFrame { task: TaskId(task), first, arena, offset, region_bytes, lease, is_shared, lens: lens.into() }
        }
    }

    proptest! {
        /// D10.5.
        #[test]
        fn what_is_written_is_read(pack in packs(), total: u64, arena: u64, hold_bytes: u64) {
            let mut words = Vec::new();
            write_pack(&pack, &mut words);
            prop_assert!(words.len() <= FRAME_WORDS_MAX);
            prop_assert_eq!(read::<ToClient>(&words), Ok(Frame::Pack(pack)));
            let message = ToClient::Yielded(Yielded { task: TaskId(3), total });
            write_message(&message, &mut words).unwrap();
            prop_assert_eq!(read(&words), Ok(Frame::Message(message)));
            write_share(arena, hold_bytes, &mut words);
            prop_assert_eq!(read::<ToClient>(&words), Ok(Frame::Share { arena, hold_bytes }));
            write_forget(arena, &mut words);
            prop_assert_eq!(read::<ToClient>(&words), Ok(Frame::Forget { arena }));
        }

        /// D10.5.
        #[test]
        fn any_words_are_a_frame_or_an_error(
            kind in prop_oneof![any::<u64>(), 0_u64..6, Just(KIND_PACK | FLAG_UNIFORM), Just(KIND_PACK | FLAG_SHARED)],
            mut words in prop::collection::vec(prop_oneof![any::<u64>(), 0_u64..20], 0..24),
        ) {
            if let Some(first) = words.first_mut() {
                *first = kind;
            }
            if let Ok(Frame::Pack(pack)) = read::<ToClient>(&words) {
                let mut again = Vec::new();
                write_pack(&pack, &mut again);
                prop_assert_eq!(read::<ToClient>(&again), Ok(Frame::Pack(pack)));
            }
        }
    }

    /// D10.5.
    #[test]
    fn a_truncated_frame_is_refused() {
        let huge = [KIND_PACK | FLAG_UNIFORM, 1, 2, 3, 4, 5, 6, u64::MAX, 7];
        assert!(matches!(read::<ToClient>(&huge), Err(FrameError::Length { .. })));
        let table = [KIND_PACK, 1, 2, 3, 4, 5, 6, 5, 7, 8];
        let refused = read::<ToClient>(&table).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "expected a frame of 11 words, found 10 words"
        );
        let message = [KIND_MESSAGE, u64::MAX, 0];
        assert!(matches!(read::<ToClient>(&message), Err(FrameError::Message(_))));
    }
}
