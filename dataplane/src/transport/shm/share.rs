//! The part of an arena that one reader may keep before it must copy: half of the arena, divided by the
//! number of readers. The second half of the arena is for elements in flight (D10.6). The readers themselves
//! are unknown to this module.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::arena::Arena;

/// One reader's part of an arena, counted as long as the value lives.
#[derive(Debug)]
pub(super) struct Share {
    arena: Arc<Arena>,
}

impl Share {
    pub(super) fn new(arena: Arc<Arena>) -> Self {
        arena.readers().fetch_add(1, Ordering::Relaxed);
        Self { arena }
    }

    /// Returns the arena.
    pub(super) fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Returns the number of bytes that the reader may keep. The number changes when readers connect or
    /// leave.
    pub(super) fn bytes(&self) -> u64 {
        let readers = self.arena.readers().load(Ordering::Relaxed).max(1);
        (self.arena.size_bytes() / (2 * readers)) as u64
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.arena.readers().fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::shm::budget::ArenaBudget;

    /// D10.6.
    #[test]
    fn readers_divide_half_of_an_arena() {
        let budget = ArenaBudget::new(1 << 20, None);
        let arena = Arc::new(Arena::new(1 << 20, false, &budget).unwrap());
        let one = Share::new(arena.clone());
        assert_eq!(one.bytes(), 1 << 19);
        let other = Share::new(arena);
        assert_eq!((one.bytes(), other.bytes()), (1 << 18, 1 << 18));
        drop(other);
        assert_eq!(one.bytes(), 1 << 19);
    }
}
