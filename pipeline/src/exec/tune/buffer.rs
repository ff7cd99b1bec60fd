//! The number of elements that a prefetch buffers. The number doubles each time that the buffer was full and
//! has then become empty. A buffer that becomes empty without having been full is filled too slowly, and a
//! larger buffer would not help. A buffer that is never empty is large enough. The prefetch autotuner of
//! `tf.data` works in the same way.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// Number of elements that a buffer holds at first.
const AT_FIRST: usize = 2;

/// The size of a buffer, which grows by measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Buffer {
    size: usize,
    size_max: usize,
    /// Whether the buffer was full since it last grew.
    was_full: bool,
}

impl Buffer {
    /// Returns the size of a buffer of at most `size_max` elements.
    pub(crate) fn new(size_max: usize) -> Buffer {
        Buffer {
            size: AT_FIRST.min(size_max.max(1)),
            size_max: size_max.max(1),
            was_full: false,
        }
    }

    /// Returns the number of elements that the buffer may hold.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Records that a caller takes an element while `ready` elements are in the buffer. `element_bytes` is
    /// the known size of an element, and `left_bytes` the memory that is left for all buffers. Returns
    /// whether the buffer has grown.
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
        assert!(
            !buffer.note(0, 8, 1000),
            "the buffer was not full since it last grew"
        );
        assert!(!buffer.note(4, 8, 1000));
        assert!(
            !buffer.note(0, 300, 1000),
            "no memory is left for four more elements"
        );
        assert!(buffer.note(0, 250, 1000));
        assert!(!buffer.note(8, 8, 1000));
        assert!(buffer.note(0, 8, 1000));
        assert_eq!(buffer.size(), 10);
        assert!(
            !buffer.note(10, 8, 1000) && !buffer.note(0, 8, 1000),
            "the buffer has its maximum size"
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
