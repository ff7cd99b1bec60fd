//! The sizes of the packs in which a thread passes the elements of a local dataset to its caller.
//!
//! Large packs make small elements cheap. A slow dataset and a slow caller get small packs: elements must not
//! wait for the rest of a pack, and the pace of the caller must reach the service.

use std::time::Duration;

use millstream_element::Layout;

/// The maximum number of elements in one pack.
pub(crate) const PACK_ELEMENTS_MAX: usize = 128;

/// The size of a pack of small elements, in bytes. A caller that keeps one element keeps the whole pack in
/// memory.
const PACK_BYTES: usize = 64 << 10;

/// The time for one pack after which the next pack gets fewer elements.
const PACK_TIME_MAX: Duration = Duration::from_millis(2);

/// The time for which a pack waits for room in the queue after which the next pack gets fewer elements. A
/// slow caller needs no large packs, and its reader would report long pauses between them.
const PACK_WAIT_MAX: Duration = Duration::from_millis(500);

/// The size of the next pack.
#[derive(Debug)]
pub(crate) struct PackSize {
    /// The maximum number of elements.
    pub(crate) elements: usize,
    /// The size in bytes.
    pub(crate) bytes: usize,
}

impl PackSize {
    /// Returns the size of the first pack: one element.
    pub(crate) fn first(layout: &Layout) -> PackSize {
        let one = layout
            .is_static()
            .then(|| layout.element_bytes(&[], 0).ok())
            .flatten();
        PackSize {
            elements: 1,
            // Each element begins at an aligned offset.
            bytes: one.map_or(PACK_BYTES, |one| one.max(PACK_BYTES)),
        }
    }

    /// Changes the number of elements after a pack that `took` this time, and then `waited` for room in the
    /// queue. Only a pack that had all its elements may be followed by a larger one.
    pub(crate) fn adapt(&mut self, took: Duration, waited: Duration, is_complete: bool) {
        if took > PACK_TIME_MAX {
            self.elements = 1;
        } else if waited > PACK_WAIT_MAX {
            self.elements = (self.elements / 2).max(1);
        } else if is_complete {
            self.elements = (2 * self.elements).min(PACK_ELEMENTS_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_callers_and_slow_datasets_get_small_packs() {
        let (short, long) = (Duration::ZERO, Duration::from_secs(1));
        let mut size = PackSize {
            elements: 1,
            bytes: 1,
        };
        let mut after = |took, waited, is_complete| {
            size.adapt(took, waited, is_complete);
            size.elements
        };
        assert_eq!(
            [(); 8].map(|()| after(short, short, true)),
            [2, 4, 8, 16, 32, 64, 128, 128]
        );
        assert_eq!(after(short, short, false), 128, "the bytes limit the pack");
        assert_eq!(
            [(); 2].map(|()| after(short, long, true)),
            [64, 32],
            "the caller is slow"
        );
        assert_eq!(after(long, short, false), 1, "the dataset is slow");
        assert_eq!(after(short, long, true), 1);
    }
}
