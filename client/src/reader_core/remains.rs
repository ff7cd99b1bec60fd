//! The elements of a removed task that a reader still holds, and the search for the splits of these elements.
//!
//! The search runs outside the lock and the lane thread, because bodies may have to be decompressed.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::sync::Arc;

use millstream_dataplane::transport::Body;
use millstream_element::{Element, Layout, Origin, Pack, SlotAlloc};

use super::ranges::Ranges;
use crate::report::SeenSplits;

/// Elements of a task that the reader holds, and the leases noted for elements that it handed over.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    /// The leases found so far.
    pub(super) seen: BTreeSet<u64>,
    /// The leases of ended splits, whose elements have all arrived.
    pub(super) done: BTreeSet<u64>,
    pub(super) layout: Option<Arc<Layout>>,
    /// The elements that wait for the consumer, or are on the way to it.
    pub(super) waiting: Vec<Body>,
    /// The pack that the consumer has open.
    pub(super) at_hand: Option<Pack>,
    /// The value for [`SeenSplits::released`].
    pub(super) released: u64,
}

impl Remains {
    /// Returns the splits of which the reader holds some elements but not all. If an element cannot be read,
    /// returns all possible splits.
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

/// Adds the leases of all elements in the pack to `seen`. Returns false if an element cannot be read.
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
