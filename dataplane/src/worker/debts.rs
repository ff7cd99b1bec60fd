//! Records for each client the splits that it holds: splits with elements that the client's user has not
//! finished with (D5.6).
//!
//! An acknowledged element may still wait in a reader that is killed, so an acknowledgement does not end a
//! split. The module owns leases only. Positions in the task are unknown to it; `owed` keeps them.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};

use millstream_element::{Pack, each_lease};

/// The splits held by clients, and the splits lost with clients that left. Each outstanding element names at
/// most 1024 splits.
#[derive(Debug, Default)]
pub(super) struct Debts {
    clients: BTreeMap<u64, Hand>,
    /// The splits of clients that have received everything, in case a client exits before it reports its
    /// splits.
    ended: BTreeMap<u64, BTreeSet<u64>>,
    missed: BTreeMap<u64, Missed>,
    /// The splits that ended while several clients held them, and that must not hold up other clients.
    shared: BTreeMap<u64, SharedSplit>,
}

/// The answer to the question whether a client is told the end of a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndTold {
    /// The client is not told now.
    NotNow,
    /// The client is told now, and other clients will be told too.
    ToOthersToo,
    /// The client is told now, and is the last one.
    ToLast,
    /// No client is told, because all clients to be told have left.
    ToNobody,
}

/// A split whose end is told to each client that holds it, after the dispatcher knows all holders.
#[derive(Debug)]
struct SharedSplit {
    /// The clients that must still be told the end.
    untold: BTreeSet<u64>,
    /// The holders that the dispatcher does not know yet.
    unheard: BTreeSet<u64>,
    /// True if the dispatcher is being told of the holders.
    is_said: bool,
}

/// The splits that one client holds.
#[derive(Debug, Default)]
struct Hand {
    /// The number of elements that the client was ever given.
    given: u64,
    /// The position after the last element of each split, counted from the client's first element.
    upto: BTreeMap<u64, u64>,
}

/// The splits lost with a client, until the dispatcher knows of them.
#[derive(Debug, Default)]
struct Missed {
    leases: BTreeSet<u64>,
    /// True if the dispatcher is being told of the splits.
    is_told: bool,
}

impl Debts {
    /// Records that a client is given these elements. Returns whether each element names the splits that it
    /// comes from.
    pub(super) fn give(&mut self, client: u64, pack: &Pack) -> bool {
        let hand = self.clients.entry(client).or_default();
        let (mut are_all_traced, mut last) = (true, None);
        for slot in pack.slots() {
            hand.given += 1;
            let (given, mut is_traced) = (hand.given, false);
            each_lease(&slot, |lease| {
                is_traced = true;
                // Most elements come from the same split as the element before, so the map is updated only
                // when the split changes.
                match last.filter(|(latest, _)| *latest == lease) {
                    Some(_) => last = Some((lease, given)),
                    None => {
                        if let Some((earlier, upto)) = last.replace((lease, given)) {
                            hand.upto.insert(earlier, upto);
                        }
                    }
                }
            });
            are_all_traced &= is_traced;
        }
        hand.upto.extend(last);
        are_all_traced
    }

    /// Records that a client's user has finished with the first `handed` elements. Returns whether the client
    /// no longer holds some split.
    pub(super) fn hand_over(&mut self, client: u64, handed: u64) -> bool {
        let Some(hand) = self.clients.get_mut(&client) else {
            return false;
        };
        let before = hand.upto.len();
        hand.upto.retain(|_, upto| *upto > handed);
        hand.upto.len() < before
    }

    /// Decides whether a client is told the end of a split now, and records the decision.
    ///
    /// The end of a split waits while other clients hold the split. With `is_pressed` it must not wait
    /// longer: the dispatcher is told of all holders, and afterwards each holder is told the end (D5.6).
    pub(super) fn tell_end(&mut self, client: u64, lease: u64, is_pressed: bool) -> EndTold {
        if self.is_missed(lease) {
            return EndTold::NotNow;
        }
        let Some(shared) = self.shared.get_mut(&lease) else {
            if !self.have_others(client, lease) {
                return EndTold::ToLast;
            }
            if is_pressed {
                self.share(lease);
            }
            return EndTold::NotNow;
        };
        if !shared.unheard.is_empty() {
            return EndTold::NotNow;
        }
        let is_told = shared.untold.remove(&client);
        match (is_told, shared.untold.is_empty()) {
            (false, false) => EndTold::NotNow,
            (true, false) => EndTold::ToOthersToo,
            (is_told, true) => {
                self.shared.remove(&lease);
                if is_told {
                    EndTold::ToLast
                } else {
                    EndTold::ToNobody
                }
            }
        }
    }

    /// Records the clients that hold a split, if several clients hold it.
    fn share(&mut self, lease: u64) {
        let holders = self.clients.iter();
        let holders = holders.filter(|(_, hand)| hand.upto.contains_key(&lease));
        let holders: BTreeSet<u64> = holders.map(|(client, _)| *client).collect();
        if holders.len() > 1 {
            let shared = SharedSplit {
                untold: holders.clone(),
                unheard: holders,
                is_said: false,
            };
            self.shared.insert(lease, shared);
        }
    }

    /// Returns whether [`Debts::take_shared`] would return anything.
    pub(super) fn has_unsaid(&self) -> bool {
        self.shared.values().any(|shared| !shared.is_said)
    }

    /// Returns the shared splits that the dispatcher has not been told of, by client.
    pub(super) fn take_shared(&mut self) -> Vec<(u64, Vec<u64>)> {
        let mut unsaid: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (lease, shared) in self.shared.iter_mut().filter(|(_, shared)| !shared.is_said) {
            shared.is_said = true;
            for client in &shared.unheard {
                unsaid.entry(*client).or_default().push(*lease);
            }
        }
        unsaid.into_iter().collect()
    }

    /// Records that the dispatcher knows that a client holds these shared splits.
    pub(super) fn heard_shared(&mut self, client: u64, leases: &[u64]) {
        for lease in leases {
            if let Some(shared) = self.shared.get_mut(lease) {
                shared.unheard.remove(&client);
            }
        }
    }

    /// Records that a client is told nothing more.
    pub(super) fn leave(&mut self, client: u64) {
        for shared in self.shared.values_mut() {
            shared.untold.remove(&client);
        }
    }

    /// Returns whether another client holds this split.
    fn have_others(&self, client: u64, lease: u64) -> bool {
        let mut others = self.clients.iter().filter(|(other, _)| **other != client);
        others.any(|(_, hand)| hand.upto.contains_key(&lease))
    }

    /// Returns whether a client that left held this split, and the dispatcher does not know that yet.
    fn is_missed(&self, lease: u64) -> bool {
        self.missed.values().any(|missed| missed.leases.contains(&lease))
    }

    /// Returns whether splits were lost that the dispatcher does not know of.
    pub(super) fn has_missed(&self) -> bool {
        !self.missed.is_empty()
    }

    /// Records that a client has received everything, and reports its unfinished elements itself.
    pub(super) fn end(&mut self, client: u64) {
        let hand = self.clients.remove(&client).filter(|hand| !hand.upto.is_empty());
        if let Some(hand) = hand {
            self.ended.insert(client, hand.upto.into_keys().collect());
        }
    }

    /// Records that the dispatcher has ended a client. Returns the client's splits that the dispatcher may
    /// not know.
    pub(super) fn release(&mut self, client: u64) -> Vec<u64> {
        self.miss(client);
        if let Some(leases) = self.ended.remove(&client) {
            self.missed.entry(client).or_default().leases.extend(leases);
        }
        match self.missed.get_mut(&client) {
            Some(missed) => {
                missed.is_told = true;
                missed.leases.iter().copied().collect()
            }
            None => Vec::new(),
        }
    }

    /// Records that a client left with the splits that it held. Returns whether it held any.
    pub(super) fn miss(&mut self, client: u64) -> bool {
        let Some(hand) = self.clients.remove(&client).filter(|hand| !hand.upto.is_empty()) else {
            return false;
        };
        let missed = self.missed.entry(client).or_default();
        missed.leases.extend(hand.upto.into_keys());
        missed.is_told = false;
        true
    }

    /// Takes the lost splits that the dispatcher has not been told of, by client.
    pub(super) fn take_untold(&mut self) -> Vec<(u64, Vec<u64>)> {
        let untold = self.missed.iter_mut().filter(|(_, missed)| !missed.is_told);
        let untold = untold.map(|(client, missed)| {
            missed.is_told = true;
            (*client, missed.leases.iter().copied().collect())
        });
        untold.collect()
    }

    /// Records that the dispatcher knows that these splits were lost with a client.
    pub(super) fn heard(&mut self, client: u64, leases: &[u64]) {
        if let Some(missed) = self.missed.get_mut(&client) {
            leases.iter().for_each(|lease| {
                missed.leases.remove(lease);
            });
            if missed.leases.is_empty() {
                self.missed.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Debts {
        /// Gives a client one element of these splits.
        fn take(&mut self, client: u64, leases: &[u64]) {
            let hand = self.clients.entry(client).or_default();
            hand.given += 1;
            hand.upto.extend(leases.iter().map(|lease| (*lease, hand.given)));
        }
    }

    /// D5.6
    #[test]
    fn a_split_is_free_after_its_last_element() {
        let mut debts = Debts::default();
        for leases in [&[7][..], &[7, 8], &[8]] {
            debts.take(1, leases);
        }
        debts.take(2, &[8]);
        assert!(!debts.hand_over(1, 1));
        assert!(debts.have_others(2, 7) && !debts.have_others(1, 7));
        assert!(debts.hand_over(1, 2));
        assert!(!debts.have_others(2, 7) && debts.have_others(2, 8));
        assert!(debts.hand_over(1, 3));
        assert!(debts.have_others(1, 8) && !debts.have_others(2, 8));
    }

    /// D5.6: if only one of the two holders were told, the split would be done while the other holder could
    /// still lose it.
    #[test]
    fn shared_splits_are_told_to_every_holder() {
        let mut debts = Debts::default();
        for client in [1, 2] {
            debts.take(client, &[7]);
        }
        for client in [1, 2, 3] {
            assert_eq!(debts.tell_end(client, 7, false), EndTold::NotNow);
        }
        assert!(!debts.has_unsaid());
        assert_eq!(debts.tell_end(3, 7, true), EndTold::NotNow);
        assert!(debts.has_unsaid());
        assert_eq!(debts.take_shared(), [(1, vec![7]), (2, vec![7])]);
        assert_eq!(debts.take_shared(), []);
        debts.heard_shared(1, &[7]);
        assert_eq!(
            debts.tell_end(1, 7, true),
            EndTold::NotNow,
            "the dispatcher does not know client 2"
        );
        debts.heard_shared(2, &[7]);
        assert_eq!(debts.tell_end(3, 7, true), EndTold::NotNow);
        assert_eq!(debts.tell_end(1, 7, true), EndTold::ToOthersToo);
        assert_eq!(debts.tell_end(1, 7, true), EndTold::NotNow);
        assert_eq!(debts.tell_end(2, 7, true), EndTold::ToLast);
    }

    /// C6.7
    #[test]
    fn holders_that_go_are_missed_and_not_awaited() {
        let mut debts = Debts::default();
        for client in [1, 2] {
            debts.take(client, &[7]);
        }
        debts.tell_end(3, 7, true);
        debts.take_shared();
        for client in [1, 2] {
            debts.heard_shared(client, &[7]);
        }
        debts.leave(1);
        assert!(debts.miss(1));
        assert_eq!(
            debts.tell_end(2, 7, true),
            EndTold::NotNow,
            "the split counts as missed"
        );
        assert_eq!(debts.take_untold(), [(1, vec![7])]);
        debts.heard(1, &[7]);
        debts.leave(2);
        assert_eq!(debts.tell_end(3, 7, true), EndTold::ToNobody);
    }

    #[test]
    fn missed_splits_stay_until_the_dispatcher_has_heard() {
        let mut debts = Debts::default();
        debts.take(1, &[7]);
        debts.take(1, &[8]);
        debts.hand_over(1, 1);
        assert!(debts.miss(1) && !debts.miss(1));
        assert!(debts.is_missed(8) && !debts.is_missed(7));
        assert_eq!(debts.take_untold(), [(1, vec![8])]);
        assert_eq!(debts.take_untold(), []);
        assert_eq!(debts.release(1), [8]);
        debts.heard(1, &[8]);
        assert!(!debts.has_missed());
    }

    #[test]
    fn a_client_at_the_end_misses_nothing() {
        let mut debts = Debts::default();
        debts.take(1, &[7]);
        debts.end(1);
        assert!(!debts.miss(1) && !debts.has_missed() && !debts.have_others(2, 7));
        assert_eq!(
            debts.release(1),
            [7],
            "the client was ended before it reported the split"
        );
    }
}
