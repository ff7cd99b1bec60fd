//! How many elements a prefetch holds: few, and twice as many each time that its buffer was full and has run
//! dry since. What runs dry without having been full is filled too slowly, which no larger buffer cures; what
//! is never dry is large enough. (`tf.data`'s prefetch autotuner does the same.)
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// Elements at first.
const AT_FIRST: usize = 2;

/// The size of a buffer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Buffer {
    size: usize,
    size_max: usize,
    /// Whether it was full since it last grew.
    was_full: bool,
}

impl Buffer {
    /// A buffer of `size_max` elements at most.
    pub(crate) fn new(size_max: usize) -> Buffer {
        Buffer {
            size: AT_FIRST.min(size_max.max(1)),
            size_max: size_max.max(1),
            was_full: false,
        }
    }

    /// Elements it holds.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Somebody takes an element, and `ready` of them lie ready, of `element_bytes` as far as is known;
    /// `left_bytes` are left of the memory for all buffers. Whether it is to be larger from now on.
    pub(crate) fn note(&mut self, ready: usize, element_bytes: usize, left_bytes: usize) -> bool {
        if ready >= self.size {
            self.was_full = true;
            return false;
        }
        let has_room = element_bytes.saturating_mul(self.size) <= left_bytes;
        if ready > 0 || !self.was_full || self.size == self.size_max || !has_room {
            return false;
        }
        self.size = self.size.saturating_mul(2).min(self.size_max);
        self.was_full = false;
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buffers_grow_after_both_full_and_empty() {
        let mut buffer = Buffer::new(10);
        assert!(!buffer.note(0, 8, 1000), "it was never full");
        assert!(!buffer.note(2, 8, 1000) && !buffer.note(1, 8, 1000));
        assert!(buffer.note(0, 8, 1000));
        assert_eq!(buffer.size(), 4);
        assert!(!buffer.note(0, 8, 1000), "it has not been full since");
        assert!(!buffer.note(4, 8, 1000));
        assert!(!buffer.note(0, 300, 1000), "there is no memory for four more");
        assert!(buffer.note(0, 250, 1000));
        assert!(!buffer.note(8, 8, 1000));
        assert!(buffer.note(0, 8, 1000));
        assert_eq!(buffer.size(), 10);
        assert!(
            !buffer.note(10, 8, 1000) && !buffer.note(0, 8, 1000),
            "it is as large as it may be"
        );
    }

    proptest! {
        #[test]
        fn it_stays_within_its_limits(
            size_max: usize,
            notes in prop::collection::vec((0usize..5000, any::<usize>(), any::<usize>()), 0..100),
        ) {
            let mut buffer = Buffer::new(size_max);
            for (ready, element_bytes, left_bytes) in notes {
                let before = buffer.size();
                let grows = buffer.note(ready, element_bytes, left_bytes);
                prop_assert_eq!(grows, buffer.size() > before);
                prop_assert!(buffer.size() >= before && (1..=size_max.max(1)).contains(&buffer.size()));
                if grows {
                    prop_assert!(before.saturating_mul(element_bytes) <= left_bytes && ready == 0);
                }
            }
        }
    }
}
