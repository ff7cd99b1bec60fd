//! How far ahead of a reader blocks are asked for. Knows offsets alone: no store, no clock.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// A reader that passes over no more than this goes straight on: what it leaves out was fetched with the
/// rest.
const GAP_BYTES: u64 = 64 << 10;

/// Follows one reader of a file.
///
/// Nothing is asked for ahead before it has gone straight on once, since it may only want the file's
/// beginning. Then it is one block, and twice as many each time that the reader had to wait all the same.
#[derive(Debug, Clone)]
pub(super) struct ReadAhead {
    /// Position at which a sequential reader reads next.
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

    /// The reader reads at `offset`: how many blocks behind that one are to be asked for.
    pub(super) fn reads(&mut self, offset: u64) -> u64 {
        let is_straight = self
            .next
            .is_some_and(|next| (next..=next.saturating_add(GAP_BYTES)).contains(&offset));
        self.blocks = if is_straight { self.blocks.max(1) } else { 0 };
        self.blocks
    }

    /// The reader was given everything before `offset`.
    pub(super) fn has_read(&mut self, offset: u64) {
        self.next = Some(offset);
    }

    /// The reader had to wait for the block it reads.
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
        assert_eq!(ahead.reads(200 + GAP_BYTES), 8, "a small gap is none");
        ahead.has_read(200);
        assert_eq!(ahead.reads(100), 0);
        ahead.waited();
        ahead.has_read(150);
        assert_eq!(ahead.reads(150), 1, "it begins again");
        ahead.has_read(u64::MAX);
        assert_eq!(ahead.reads(u64::MAX), 1, "no offset overflows");
    }
}
