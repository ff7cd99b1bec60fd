//! Records the elements of a task that clients took and have not acknowledged.
//!
//! A split is done only after all its elements have reached clients, and each client acknowledges only its
//! own elements. Therefore the end of a split that one client reports must not count for elements that are in
//! flight to another client.
//!
//! The module owns the positions only. Elements and splits are unknown to it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// The elements that the clients of a task took and have not acknowledged. The number of ranges is at most
/// the number of packs that the clients keep.
#[derive(Debug, Default)]
pub(super) struct Owed {
    clients: BTreeMap<u64, Share>,
}

/// The unacknowledged elements of one client.
#[derive(Debug, Default)]
struct Share {
    /// The positions in the task, ascending. Adjacent ranges are joined, so that an only client has one
    /// range.
    ranges: VecDeque<Range<u64>>,
    /// The number of elements that the client acknowledged since its subscription.
    acknowledged: u64,
}

impl Owed {
    /// Records that a client took the elements at these positions, which follow all positions taken before.
    pub(super) fn take(&mut self, client: u64, positions: Range<u64>) {
        let ranges = &mut self.clients.entry(client).or_default().ranges;
        match ranges.back_mut() {
            Some(last) if last.end == positions.start => last.end = positions.end,
            Some(_) | None => ranges.push_back(positions),
        }
        self.check_invariants();
    }

    /// Records that a client acknowledged the first `received` elements of its subscription. Returns the
    /// range from the client's first owed position before to the first owed position after.
    pub(super) fn acknowledge(&mut self, client: u64, received: u64) -> Range<u64> {
        let Some(share) = self.clients.get_mut(&client) else {
            return 0..0;
        };
        let before = share.first();
        while share.acknowledged < received {
            let Some(oldest) = share.ranges.front_mut() else {
                break;
            };
            let known = (received - share.acknowledged).min(oldest.end - oldest.start);
            oldest.start += known;
            share.acknowledged += known;
            if oldest.is_empty() {
                share.ranges.pop_front();
            }
        }
        let after = share.first();
        self.check_invariants();
        before..after
    }

    /// Forgets a client whose subscription ended.
    pub(super) fn forget(&mut self, client: u64) {
        self.clients.remove(&client);
    }

    /// Returns the first position that a client other than `client` owes, or `u64::MAX` if no other client
    /// owes a position.
    pub(super) fn first_of_others(&self, client: u64) -> u64 {
        let others = self.clients.iter().filter(|(other, _)| **other != client);
        others.map(|(_, share)| share.first()).min().unwrap_or(u64::MAX)
    }

    fn check_invariants(&self) {
        if cfg!(test) {
            for share in self.clients.values() {
                assert!(share.ranges.iter().all(|range| range.start < range.end));
                assert!(share.ranges.iter().is_sorted_by(|one, next| one.end < next.start));
            }
        }
    }
}

impl Share {
    fn first(&self) -> u64 {
        self.ranges.front().map_or(u64::MAX, |range| range.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Step {
        Take { client: u64, elements: u64 },
        Acknowledge { client: u64, share: f64 },
        Forget { client: u64 },
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => (0u64..3, 1u64..9).prop_map(|(client, elements)| Step::Take { client, elements }),
            3 => (0u64..3, 0.0..1.0).prop_map(|(client, share)| Step::Acknowledge { client, share }),
            1 => (0u64..3).prop_map(|client| Step::Forget { client }),
        ];
        prop::collection::vec(step, 0..100)
    }

    proptest! {
        /// D5.2: the model keeps the owner of each element.
        #[test]
        fn debts_match_a_list_of_owners(steps in steps()) {
            let mut owed = Owed::default();
            let mut owners: Vec<Option<u64>> = Vec::new();
            let mut acknowledged = BTreeMap::<u64, u64>::new();
            for step in steps {
                let first = |owners: &[Option<u64>], is_meant: &dyn Fn(u64) -> bool| {
                    owners.iter().position(|owner| owner.is_some_and(is_meant)).map_or(u64::MAX, |at| at as u64)
                };
                match step {
                    Step::Take { client, elements } => {
                        let from = owners.len() as u64;
                        owed.take(client, from..from + elements);
                        owners.extend((0..elements).map(|_| Some(client)));
                    }
                    Step::Acknowledge { client, share } => {
                        let mine = owners.iter_mut().filter(|owner| **owner == Some(client));
                        let count = (mine.count() as f64 * share).round() as usize;
                        let before = first(&owners, &|owner| owner == client);
                        for owner in owners.iter_mut().filter(|owner| **owner == Some(client)).take(count) {
                            *owner = None;
                        }
                        let after = first(&owners, &|owner| owner == client);
                        let received = acknowledged.entry(client).or_default();
                        *received += count as u64;
                        let passed = owed.acknowledge(client, *received);
                        prop_assert!(passed.is_empty() == (before == after));
                        prop_assert!(passed.is_empty() || passed == (before..after));
                    }
                    Step::Forget { client } => {
                        owed.forget(client);
                        acknowledged.remove(&client);
                        owners.iter_mut().filter(|owner| **owner == Some(client)).for_each(|owner| *owner = None);
                    }
                }
                for client in 0..4 {
                    prop_assert_eq!(owed.first_of_others(client), first(&owners, &|owner| owner != client));
                }
            }
        }
    }
}
