//! The layout of the memory that carries the rings of one link. Both ends use the same table of offsets
//! (D10.1).
//!
//! Offsets count words of 64 bits from the start of the memory. Fresh memory is zero, and zeroed memory is a
//! valid, empty layout. Invariant: two words that different sides write often never share a cache line.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::datagram::ControlSizes;
use crate::proto::message::MESSAGE_BYTES_MAX;

/// The distance between words that different sides write, in words. Caches keep lines of 64 bytes, but many
/// fetch lines in pairs, and some processors have lines of 128 bytes. Therefore the distance is 128 bytes.
pub const LINE_WORDS: usize = 16;

/// Maximum number of words of a frame: the longest message and two words before it. The maximum is longer
/// than the descriptor of a pack with 8192 elements of different lengths.
pub const FRAME_WORDS_MAX: usize = MESSAGE_BYTES_MAX / 8 + 2;

/// The number of words of a ring, 256 KiB: the smallest power of two that holds the largest frame. The
/// descriptor of a pack takes about ten words, so a ring holds thousands of descriptors.
pub const RING_WORDS: usize = (FRAME_WORDS_MAX + 1).next_power_of_two();

/// Maximum number of packs that a reader may hold at once. Readers hold at most as many packs as elements may
/// be outstanding: tens to hundreds. The return ring requires a power of two, and takes eight pages.
pub const LEASES_MAX: usize = 4096;

/// The number of words of a page. The size of the whole control memory is rounded up to whole pages.
const PAGE_WORDS: usize = 512;

/// The offsets of all parts of a link's control memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlLayout {
    /// The ring of frames from the worker to the client.
    pub down: RingPlace,
    /// The ring of frames from the client to the worker.
    pub up: RingPlace,
    /// The ring of leases that the client returns.
    pub returns: ReturnsPlace,
    words: usize,
}

impl ControlLayout {
    /// The layout that both ends use.
    pub const STANDARD: Self = Self::new(RING_WORDS, FRAME_WORDS_MAX, LEASES_MAX);

    /// Makes a layout with rings of `ring_words` for frames of up to `frame_words_max`, and with `leases_max`
    /// leases.
    ///
    /// # Panics
    ///
    /// Panics if `ring_words` or `leases_max` is not a power of two, or if a ring cannot hold its largest
    /// frame.
    pub const fn new(ring_words: usize, frame_words_max: usize, leases_max: usize) -> Self {
        let down = RingPlace::new("down", 0, ring_words, frame_words_max);
        let up = RingPlace::new("up", down.end(), ring_words, frame_words_max);
        let returns = ReturnsPlace::new(up.end(), leases_max);
        Self {
            down,
            up,
            returns,
            words: returns.end().next_multiple_of(PAGE_WORDS),
        }
    }

    /// Returns the sizes that a worker sends in its hello and that a client compares with its own sizes
    /// (D9.3).
    pub const fn sizes(&self) -> ControlSizes {
        // Each size fits 32 bits, because a worker allocated memory for the sum, which is far below 2^32.
        ControlSizes {
            control_bytes: self.bytes() as u64,
            down_words: self.down.capacity as u32,
            up_words: self.up.capacity as u32,
            leases: self.returns.capacity as u32,
        }
    }

    /// Returns the number of words of the whole memory, a multiple of a page.
    pub const fn words(&self) -> usize {
        self.words
    }

    /// Returns the size of the whole memory, in bytes.
    pub const fn bytes(&self) -> usize {
        self.words * size_of::<u64>()
    }
}

/// The offsets of a ring. Indices count words since the beginning of the link and never wrap around, because
/// 2^64 words would take centuries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingPlace {
    /// The name of the ring in errors.
    pub(super) name: &'static str,
    /// The offset of the sender's index: the index after the last word of the last frame.
    pub(super) tail: usize,
    /// The offset of the receiver's index: the index of the first word not yet taken.
    pub(super) head: usize,
    /// The offset of the flag that is set while a task of the receiver sleeps until a frame arrives.
    pub(super) receiver_waits: usize,
    /// The offset of the flag that is set while a thread of the receiver sleeps at this word. The flag shares
    /// a cache line with `receiver_waits`, because the sender reads both.
    pub(super) receiver_dozes: usize,
    /// The offset of the flag that is set while the sender sleeps until the ring has room.
    pub(super) sender_waits: usize,
    /// The offset of the first of the words that hold frames.
    pub(super) first: usize,
    /// The number of words that hold frames, a power of two.
    pub(super) capacity: usize,
    /// Maximum number of words of a frame. The maximum is below `capacity`, because the length precedes the
    /// frame.
    pub(super) frame_words_max: usize,
}

impl RingPlace {
    const fn new(name: &'static str, at: usize, capacity: usize, frame_words_max: usize) -> Self {
        assert!(
            capacity.is_power_of_two(),
            "the capacity of a ring must be a power of two"
        );
        assert!(
            frame_words_max < capacity,
            "the largest frame and its length fit the ring"
        );
        Self {
            name,
            tail: at,
            head: at + LINE_WORDS,
            receiver_waits: at + 2 * LINE_WORDS,
            receiver_dozes: at + 2 * LINE_WORDS + 1,
            sender_waits: at + 3 * LINE_WORDS,
            first: at + 4 * LINE_WORDS,
            capacity,
            frame_words_max,
        }
    }

    /// Returns the maximum number of words of a frame.
    pub const fn frame_words_max(&self) -> usize {
        self.frame_words_max
    }

    pub(super) const fn end(&self) -> usize {
        (self.first + self.capacity).next_multiple_of(LINE_WORDS)
    }

    /// Returns the `count` words from index `at` on, split in two runs where the ring wraps around. `count`
    /// is at most `capacity`.
    #[inline]
    pub(super) fn runs<'a, W>(&self, words: &'a [W], at: u64, count: usize) -> (&'a [W], &'a [W]) {
        let ring = &words[self.first..self.first + self.capacity];
        // The cast drops only bits that the mask drops too.
        let start = at as usize & (self.capacity - 1);
        let count_to_end = count.min(self.capacity - start);
        (&ring[start..start + count_to_end], &ring[..count - count_to_end])
    }
}

/// The offsets of the return ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReturnsPlace {
    /// The offset of the counter of places that returning threads took.
    pub(super) tail: usize,
    /// The offset of the flag that is set while the worker sleeps until a lease returns.
    pub(super) receiver_waits: usize,
    /// The offset of the first of the words that hold returned leases.
    pub(super) first: usize,
    /// The number of words that hold leases, a power of two. The capacity is also the maximum number of
    /// leases.
    pub(super) capacity: usize,
}

impl ReturnsPlace {
    const fn new(at: usize, capacity: usize) -> Self {
        assert!(capacity.is_power_of_two(), "indices are masked");
        Self {
            tail: at,
            receiver_waits: at + LINE_WORDS,
            first: at + 2 * LINE_WORDS,
            capacity,
        }
    }

    pub(super) const fn end(&self) -> usize {
        (self.first + self.capacity).next_multiple_of(LINE_WORDS)
    }

    /// Returns the offset of the word for the `count`th return.
    #[inline]
    pub(super) fn slot(&self, count: u64) -> usize {
        // The cast drops only bits that the mask drops too.
        self.first + (count as usize & (self.capacity - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_share_neither_bytes_nor_cache_lines() {
        for layout in [ControlLayout::STANDARD, ControlLayout::new(4, 3, 2)] {
            let ring = |place: RingPlace| {
                let singles = [place.tail, place.head, place.receiver_waits, place.sender_waits];
                assert_eq!(place.receiver_dozes, place.receiver_waits + 1);
                let singles = singles.map(|at| (at, 1));
                singles.into_iter().chain([(place.first, place.capacity)])
            };
            let returns = layout.returns;
            let mut parts: Vec<(usize, usize)> = ring(layout.down)
                .chain(ring(layout.up))
                .chain([(returns.tail, 1), (returns.receiver_waits, 1)])
                .chain([(returns.first, returns.capacity)])
                .collect();
            parts.sort_unstable();
            let last_line = |(first, count): (usize, usize)| (first + count - 1) / LINE_WORDS;
            for pair in parts.windows(2) {
                assert!(last_line(pair[0]) < pair[1].0 / LINE_WORDS, "{pair:?}");
            }
            let end = parts.last().map(|(first, count)| first + count);
            assert!(end.is_some_and(|end| end <= layout.words()));
            assert_eq!(layout.bytes() % 4096, 0);
        }
    }

    #[test]
    fn standard_rings_take_the_longest_messages() {
        let layout = ControlLayout::STANDARD;
        // D10.1 states these figures.
        assert_eq!(layout.up.first, layout.down.first + 32_832);
        assert_eq!(layout.returns.first, 65_696);
        assert_eq!(layout.words(), 70_144);
        let sizes = layout.sizes();
        assert_eq!((sizes.control_bytes, sizes.leases), (70_144 * 8, 4096));
        assert_eq!((sizes.down_words, sizes.up_words), (32_768, 32_768));
        for place in [layout.down, layout.up] {
            assert!(place.frame_words_max() * 8 >= MESSAGE_BYTES_MAX + 16);
            assert!(place.frame_words_max() >= LINE_WORDS + 8192 / 2);
            assert_eq!(place.capacity, 32 * 1024);
        }
    }
}
