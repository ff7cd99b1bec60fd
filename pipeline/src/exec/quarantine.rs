//! The elements that all attempts at a split leave out, because an operation failed at them before.
//!
//! An operation recognises such an element before it computes the element. Every attempt therefore yields the
//! same elements, also if the operation would succeed now. This module does not decide which elements are
//! left out.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::random::mix;

/// An element at which an operation failed. Its split and id are the same in every attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FailedElement {
    /// The number of the split in the source.
    pub split: u64,
    /// The id of the element in its split. The id also names the operation.
    pub id: u64,
    /// The number of elements that the split had yielded before the failure.
    pub yielded: u64,
}

/// The elements that a task leaves out, by their splits. Clones share the elements.
#[derive(Debug, Clone, Default)]
pub struct Quarantine {
    ids: Arc<BTreeMap<u64, Arc<[u64]>>>,
}

impl Quarantine {
    /// Returns the quarantine of elements, each given as its split and its id in the split.
    pub fn new(elements: impl IntoIterator<Item = (u64, u64)>) -> Quarantine {
        let mut ids: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (split, id) in elements {
            ids.entry(split).or_default().push(id);
        }
        let ids = ids.into_iter().map(|(split, ids)| (split, ids.into()));
        Quarantine {
            ids: Arc::new(ids.collect()),
        }
    }

    /// Returns the elements of one split.
    pub(super) fn of_split(&self, split: u64) -> SplitQuarantine {
        SplitQuarantine {
            split,
            ids: self.ids.get(&split).cloned().unwrap_or_default(),
        }
    }
}

/// The elements of one split that are left out.
#[derive(Debug, Clone)]
pub(crate) struct SplitQuarantine {
    split: u64,
    ids: Arc<[u64]>,
}

impl SplitQuarantine {
    /// Returns whether no element of the split is left out.
    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

/// The elements of one split that one operation leaves out.
#[derive(Debug, Clone)]
pub(super) struct OperationQuarantine {
    of_split: SplitQuarantine,
    /// The number that differs between operations, and between the calls of a body.
    scope: u64,
    /// The number of the pass over the operation's input.
    pass: u64,
}

impl OperationQuarantine {
    /// Returns the elements that the operation at `node` leaves out. `body` differs between the calls of
    /// bodies.
    pub(super) fn new(of_split: SplitQuarantine, body: u64, node: u32) -> OperationQuarantine {
        OperationQuarantine {
            of_split,
            scope: mix(body, u64::from(node)),
            pass: 0,
        }
    }

    /// Begins the next pass. An operation below `repeat` meets the same positions in every pass.
    pub(super) fn next_pass(&mut self) {
        self.pass = self.pass.wrapping_add(1);
    }

    /// Returns whether no element of the split is left out.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.of_split.is_empty()
    }

    /// Returns whether the operation leaves out the element at `position`.
    #[inline]
    pub(super) fn contains(&self, position: u64) -> bool {
        !self.of_split.is_empty() && self.of_split.ids.contains(&self.id(position))
    }

    /// Returns the split and the id of the element at `position`, at which the operation failed.
    pub(super) fn failed(&self, position: u64) -> FailedElement {
        FailedElement {
            split: self.of_split.split,
            id: self.id(position),
            yielded: 0,
        }
    }

    fn id(&self, position: u64) -> u64 {
        mix(mix(self.scope, self.pass), position)
    }
}
