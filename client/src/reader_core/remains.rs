//! The elements that a reader still has of a removed task, and the search for their splits.
//!
//! The search runs away from the lock and from the lane, because bodies may have to be decompressed.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::sync::Arc;

use millstream_dataplane::transport::Body;
use millstream_element::{Element, Layout, Origin, Pack, SlotAlloc};

use super::ranges::Ranges;
use crate::report::SeenSplits;

/// Elements that were not all handed over, and the leases noted of those that were.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    /// Leases met so far.
    pub(super) seen: BTreeSet<u64>,
    /// Leases that ended; of these everything is here.
    pub(super) done: BTreeSet<u64>,
    pub(super) layout: Option<Arc<Layout>>,
    /// The elements that wait for the consumer, or are on their way to it.
    pub(super) waiting: Vec<Body>,
    /// The pack that it has in hand.
    pub(super) at_hand: Option<Pack>,
    /// The value for [`SeenSplits::released`].
    pub(super) released: u64,
}

impl Remains {
    /// The splits of which there are elements here, but not all. Where one cannot be read, that may be any.
    pub(crate) fn look_through(self, alloc: &dyn SlotAlloc) -> SeenSplits {
        let Self {
            mut seen,
            done,
            layout,
            waiting,
            at_hand,
            released,
        } = self;
        let packs = waiting.into_iter().map(|body| body.open(alloc).ok());
        for pack in packs.chain(at_hand.map(Some)) {
            let is_read = match (&pack, &layout) {
                (Some(pack), Some(layout)) => note_leases(pack, layout, &mut seen),
                (None, _) | (_, None) => false,
            };
            if !is_read {
                return SeenSplits {
                    released,
                    ..SeenSplits::everything()
                };
            }
        }
        let mut partial = Ranges::default();
        for lease in seen.difference(&done) {
            partial.insert(*lease..=*lease);
        }
        SeenSplits {
            partial: partial.iter().collect(),
            released,
        }
    }
}

/// False if an element cannot be read.
fn note_leases(pack: &Pack, layout: &Arc<Layout>, seen: &mut BTreeSet<u64>) -> bool {
    pack.slots().all(|slot| {
        let origin = Origin::of(&slot);
        let Ok(element) = Element::open(slot, layout, origin) else {
            return false;
        };
        seen.extend(element.provenance().iter().map(|provenance| provenance.lease));
        true
    })
}

#[cfg(test)]
mod tests {
    use millstream_dataplane::transport::Body;
    use millstream_element::{HeapAlloc, SlotAlloc};

    use super::*;

    #[test]
    fn an_unreadable_pack_may_hold_any_split() {
        let block = HeapAlloc.alloc(64).unwrap().freeze();
        let remains = Remains {
            seen: BTreeSet::from([3]),
            waiting: vec![Body::Lz4 {
                block,
                region_bytes: 4096,
                lens: vec![4096],
            }],
            ..Remains::default()
        };
        assert_eq!(remains.look_through(&HeapAlloc), SeenSplits::everything());
    }

    #[test]
    fn splits_that_ended_are_not_among_those_begun() {
        let remains = Remains {
            seen: BTreeSet::from([3, 4, 5, 8]),
            done: BTreeSet::from([5]),
            ..Remains::default()
        };
        assert_eq!(remains.look_through(&HeapAlloc).partial, [3..=4, 8..=8]);
    }
}
