//! The number of blocks to prefetch for a reader. The module knows offsets only: no store and no clock.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// The maximum number of skipped bytes at which a reader still counts as sequential. The skipped bytes were
/// fetched together with the rest.
const GAP_BYTES: u64 = 64 << 10;

/// The read-ahead of one reader of a file.
///
/// No block is prefetched before the first sequential read, because the reader may only need the start of the
/// file. After a sequential read, one block is prefetched. The number doubles each time the reader has to
/// wait for a block nevertheless.
#[derive(Debug, Clone)]
pub(super) struct ReadAhead {
    /// The offset of the next read, if the reader is sequential.
    next: Option<u64>,
    blocks: u64,
    blocks_max: u64,
}

impl ReadAhead {
    pub(super) fn new(blocks_max: u64) -> ReadAhead {
        ReadAhead {
            next: None,
            blocks: 0,
            blocks_max,
        }
    }

    /// Records a read at `offset`, and returns the number of following blocks to prefetch.
    pub(super) fn reads(&mut self, offset: u64) -> u64 {
        let is_straight = self
            .next
            .is_some_and(|next| (next..=next.saturating_add(GAP_BYTES)).contains(&offset));
        self.blocks = if is_straight { self.blocks.max(1) } else { 0 };
        self.blocks
    }

    /// Records that the reader has received all bytes before `offset`.
    pub(super) fn has_read(&mut self, offset: u64) {
        self.next = Some(offset);
    }

    /// Records that the reader had to wait for the current block.
    pub(super) fn waited(&mut self) {
        self.blocks = (self.blocks * 2).min(self.blocks_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sequential_readers_prefetch() {
        let mut ahead = ReadAhead::new(8);
        assert_eq!(ahead.reads(0), 0);
        ahead.has_read(100);
        assert_eq!(ahead.reads(100), 1);
        for expected in [2, 4, 8, 8] {
            ahead.waited();
            ahead.has_read(200);
            assert_eq!(ahead.reads(200), expected);
        }
        ahead.has_read(200);
        assert_eq!(ahead.reads(200 + GAP_BYTES), 8, "a small gap is sequential");
        ahead.has_read(200);
        assert_eq!(ahead.reads(100), 0);
        ahead.waited();
        ahead.has_read(150);
        assert_eq!(ahead.reads(150), 1, "the number of blocks is reset");
        ahead.has_read(u64::MAX);
        assert_eq!(ahead.reads(u64::MAX), 1, "the offset does not overflow");
    }
}
