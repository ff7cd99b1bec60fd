//! The content of elements between their stamps, for measurements of compression: zeros, noise or words.
//!
//! The payload is written once for each slot, not for each element, so that it costs the producer nothing.
//! All elements have the same size, so each element finds the payload of an earlier element in its slot. Two
//! marks, next to the stamps, show that the payload is present.

use std::sync::Arc;

use clap::ValueEnum;

/// The size in bytes of the block that payloads are cut from. The block is larger than LZ4's window and
/// larger than a pack.
const BLOCK_BYTES: usize = 4 << 20;

/// The offset in bytes between the cuts of two consecutive elements, so that neighbours differ.
const STEP: u64 = 1_000_003;

/// The number of words in the vocabulary.
const VOCABULARY: u64 = 512;

/// The mark which shows that a payload is present.
const MARK: u64 = 0x6d69_6c6c_7374_7265;

/// The size of a stamp, and of a mark, in bytes.
const WORD: usize = 8;

/// The content of an element between its stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Payload {
    /// No payload: fresh memory, which contains zeros.
    Zeros,
    /// Noise, which no compression shortens.
    Random,
    /// Words of a small vocabulary. Some words are frequent. LZ4 halves their size.
    TextLike,
}

impl Payload {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Zeros => "zeros",
            Self::Random => "random",
            Self::TextLike => "text-like",
        }
    }

    /// Returns the block that payloads are cut from, or `None` for [`Payload::Zeros`].
    pub(crate) fn block(self) -> Option<Arc<[u8]>> {
        let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
        let mut block = Vec::with_capacity(BLOCK_BYTES + WORD);
        match self {
            Self::Zeros => return None,
            Self::Random => {
                while block.len() < BLOCK_BYTES {
                    block.extend_from_slice(&noise.next().to_le_bytes());
                }
            }
            Self::TextLike => {
                let words: Vec<Vec<u8>> = (0..VOCABULARY).map(|_| noise.word()).collect();
                while block.len() < BLOCK_BYTES {
                    // The minimum of three draws is mostly in the first quarter, so these words are frequent.
                    let word = (0..3)
                        .map(|_| noise.next() % VOCABULARY)
                        .min()
                        .unwrap_or_default();
                    block.extend_from_slice(&words[word as usize]);
                }
            }
        }
        block.truncate(BLOCK_BYTES);
        Some(block.into())
    }
}

/// Fills the bytes between the stamps of the `place`th element, unless they contain a payload already.
pub(crate) fn fill(bytes: &mut [u8], block: &[u8], place: u64) {
    let Some(inner) = bytes
        .len()
        .checked_sub(2 * WORD)
        .filter(|inner| *inner > 2 * WORD)
    else {
        return;
    };
    let bytes = &mut bytes[WORD..WORD + inner];
    let (mark, end) = (MARK.to_le_bytes(), inner - WORD);
    if bytes[..WORD] == mark && bytes[end..] == mark {
        return;
    }
    let from = (place.wrapping_mul(STEP) % block.len() as u64) as usize;
    let mut source = block[from..].iter().chain(block.iter().cycle());
    bytes.fill_with(|| source.next().copied().unwrap_or_default());
    bytes[..WORD].copy_from_slice(&mark);
    bytes[end..].copy_from_slice(&mark);
}

/// A xorshift generator, which yields the same numbers in every run.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns a word of three to ten letters and a space.
    fn word(&mut self) -> Vec<u8> {
        let letters = 3 + self.next() % 8;
        let mut word: Vec<u8> = (0..letters).map(|_| b'a' + (self.next() % 26) as u8).collect();
        word.push(b' ');
        word
    }
}

#[cfg(test)]
mod tests {
    use millstream::dataplane::transport::body::sample;
    use millstream::element::{HeapAlloc, Pack, SlotAlloc};

    use super::*;

    #[test]
    fn a_payload_is_written_once_unlike_its_neighbour() {
        let block = Payload::Random.block().unwrap();
        let (mut one, mut next) = (vec![0; 1024], vec![0; 1024]);
        fill(&mut one, &block, 1);
        fill(&mut next, &block, 2);
        assert_ne!(one[16..1008], next[16..1008]);
        let before = one.clone();
        fill(&mut one, &block, 3);
        assert_eq!(one, before);
        // A slot that held elements of another size has its marks at other offsets.
        fill(&mut one[..512], &block, 3);
        assert_ne!(one[..512], before[..512]);
        assert_eq!(one[512..], before[512..]);
    }

    #[test]
    fn noise_stays_as_long_and_text_becomes_half() {
        let ratio = |payload: Payload| {
            let mut slot = HeapAlloc.alloc(1 << 20).unwrap();
            fill(&mut slot, &payload.block().unwrap(), 1);
            let pack = Pack::from_parts(slot.freeze(), &[1 << 20]).unwrap();
            let (before, after) = sample(&pack, &HeapAlloc).unwrap();
            before as f64 / after as f64
        };
        assert!(ratio(Payload::Random) < 1.01);
        let text = ratio(Payload::TextLike);
        assert!((1.8..2.5).contains(&text), "{text}");
    }

    #[test]
    fn an_element_of_stamps_alone_takes_no_payload() {
        let block = Payload::TextLike.block().unwrap();
        for len in [16, 24, 32] {
            let mut bytes = vec![7; len];
            fill(&mut bytes, &block, 1);
            assert!(bytes.iter().all(|byte| *byte == 7), "{len}");
        }
    }
}
