//! The layout of the memory that carries the rings of one link: a table of offsets, the same for both ends
//! (D10.1).
//!
//! All in words of 64 bits from the start of the area. Fresh memory is zero, and a zeroed area is an empty
//! one. Invariant: no two words that different sides write often share a line.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::datagram::ControlSizes;
use crate::proto::message::MESSAGE_BYTES_MAX;

/// Words between what different sides write. Caches keep lines of 64 bytes but many fetch them in pairs, and
/// some processors have lines of 128: so 128 bytes. It costs memory, of which a link has little of this kind.
pub const LINE_WORDS: usize = 16;

/// Words of a frame at most: the longest message and two words before it. It is longer than a descriptor of
/// 8192 elements of different lengths, two to a word, and what comes before those.
pub const FRAME_WORDS_MAX: usize = MESSAGE_BYTES_MAX / 8 + 2;

/// Words of a ring: the next power of two that takes the largest frame, 256 KiB. Descriptors of packs take
/// some ten words each, so that thousands of them fit.
pub const RING_WORDS: usize = (FRAME_WORDS_MAX + 1).next_power_of_two();

/// Packs that a reader may hold at once. Readers hold as many as they may have outstanding elements, at most:
/// tens to hundreds. A power of two, as the return ring needs, and the ring takes eight pages.
pub const LEASES_MAX: usize = 4096;

/// Words of a page, to which the whole area is rounded.
const PAGE_WORDS: usize = 512;

/// The places of one link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlLayout {
    /// Frames from the worker to the client.
    pub down: RingPlace,
    /// Frames from the client to the worker.
    pub up: RingPlace,
    /// Leases that the client returns.
    pub returns: ReturnsPlace,
    words: usize,
}

impl ControlLayout {
    /// The layout that both ends use.
    pub const STANDARD: Self = Self::new(RING_WORDS, FRAME_WORDS_MAX, LEASES_MAX);

    /// A layout with rings of `ring_words` for frames of up to `frame_words_max`, and `leases_max` leases.
    ///
    /// # Panics
    ///
    /// If `ring_words` or `leases_max` is no power of two, or a ring cannot take its largest frame.
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

    /// Returns the sizes that a worker tells in its hello and a client compares with its own (D9.3).
    pub const fn sizes(&self) -> ControlSizes {
        // A worker has made memory of the sum of these, which is far below 2^32.
        ControlSizes {
            control_bytes: self.bytes() as u64,
            down_words: self.down.capacity as u32,
            up_words: self.up.capacity as u32,
            leases: self.returns.capacity as u32,
        }
    }

    /// Words of the whole area: whole pages.
    pub const fn words(&self) -> usize {
        self.words
    }

    /// Bytes of the whole area.
    pub const fn bytes(&self) -> usize {
        self.words * size_of::<u64>()
    }
}

/// The place of a ring. Indices count words from the beginning of the link and never wrap around: 2^64 words
/// take centuries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingPlace {
    /// The name of the ring in errors.
    pub(super) name: &'static str,
    /// The sender's index: behind the last word of the last frame.
    pub(super) tail: usize,
    /// The receiver's index: the first word it has not taken.
    pub(super) head: usize,
    /// Set while a task of the receiver sleeps until there is a frame.
    pub(super) receiver_waits: usize,
    /// Set while a thread of it does, at this word; on the same line, since the sender looks at both.
    pub(super) receiver_dozes: usize,
    /// Set while the sender sleeps until there is room.
    pub(super) sender_waits: usize,
    /// The first of the words that frames go through.
    pub(super) first: usize,
    /// The number of words; a power of two.
    pub(super) capacity: usize,
    /// Words of a frame at most; less than `capacity`, since its length goes before it.
    pub(super) frame_words_max: usize,
}

impl RingPlace {
    const fn new(name: &'static str, at: usize, capacity: usize, frame_words_max: usize) -> Self {
        assert!(capacity.is_power_of_two(), "indices are masked");
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

    /// Words of a frame at most.
    pub const fn frame_words_max(&self) -> usize {
        self.frame_words_max
    }

    pub(super) const fn end(&self) -> usize {
        (self.first + self.capacity).next_multiple_of(LINE_WORDS)
    }

    /// The `count` words from index `at` on, in the one or two runs they lie in. `count` is at most
    /// `capacity`.
    #[inline]
    pub(super) fn runs<'a, W>(&self, words: &'a [W], at: u64, count: usize) -> (&'a [W], &'a [W]) {
        let ring = &words[self.first..self.first + self.capacity];
        // Cuts off nothing that the mask keeps.
        let start = at as usize & (self.capacity - 1);
        let count_to_end = count.min(self.capacity - start);
        (&ring[start..start + count_to_end], &ring[..count - count_to_end])
    }
}

/// The place of the return ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReturnsPlace {
    /// Counts the places that returners took.
    pub(super) tail: usize,
    /// Set while the worker sleeps until a lease comes back.
    pub(super) receiver_waits: usize,
    /// The first of the places that leases go through.
    pub(super) first: usize,
    /// The number of words, which is also the largest number of leases; a power of two.
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

    /// The place of the `count`th return.
    #[inline]
    pub(super) fn slot(&self, count: u64) -> usize {
        // Cuts off nothing that the mask keeps.
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
        // The figures of D10.1.
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
