//! Splits of which each client holds elements that its user is not done with (D5.6).
//!
//! Acknowledged elements may still wait in a reader that is killed, so an acknowledgement does not end a
//! split. Owns leases alone; refuses to know positions in the task, which `owed` keeps.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};

use millstream_element::{Pack, each_lease};

/// The splits that clients have in hand, and those that went with clients which are gone. Each element that
/// is outstanding names at most 1024.
#[derive(Debug, Default)]
pub(super) struct Debts {
    clients: BTreeMap<u64, Hand>,
    /// The splits of clients that have received everything, in case such a client goes before it says what it
    /// had in hand.
    ended: BTreeMap<u64, BTreeSet<u64>>,
    missed: BTreeMap<u64, Missed>,
    /// Splits that ended while several clients had elements of them in hand, and that are to hold nobody else
    /// up.
    shared: BTreeMap<u64, SharedSplit>,
}

/// The answer to a client that asks whether it is told the end of a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndTold {
    /// The client is not told now.
    NotNow,
    /// The client is told, and so are others.
    ToOthersToo,
    /// The client is told as the last one.
    ToLast,
    /// All that were to be told are gone.
    ToNobody,
}

/// A split that is told to each of the clients that have it in hand, once the dispatcher knows of them all.
#[derive(Debug)]
struct SharedSplit {
    /// Clients that are to be told its end.
    untold: BTreeSet<u64>,
    /// Clients of which the dispatcher does not know that they have it in hand.
    unheard: BTreeSet<u64>,
    /// Somebody is about to tell the dispatcher.
    is_said: bool,
}

/// The splits that one client has in hand.
#[derive(Debug, Default)]
struct Hand {
    /// Elements that it was ever given.
    given: u64,
    /// One behind the last element of each split, counted from the client's first element.
    upto: BTreeMap<u64, u64>,
}

/// The splits that went with a client, until the dispatcher has heard of them.
#[derive(Debug, Default)]
struct Missed {
    leases: BTreeSet<u64>,
    /// Somebody is about to tell the dispatcher.
    is_told: bool,
}

impl Debts {
    /// A client is given these elements. True if each of them names the splits that it comes from.
    pub(super) fn give(&mut self, client: u64, pack: &Pack) -> bool {
        let hand = self.clients.entry(client).or_default();
        let (mut are_all_traced, mut last) = (true, None);
        for slot in pack.slots() {
            hand.given += 1;
            let (given, mut is_traced) = (hand.given, false);
            each_lease(&slot, |lease| {
                is_traced = true;
                // Most elements come from the split of the one before.
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

    /// A client's user is done with its first `handed` elements. True if that frees a split.
    pub(super) fn hand_over(&mut self, client: u64, handed: u64) -> bool {
        let Some(hand) = self.clients.get_mut(&client) else {
            return false;
        };
        let before = hand.upto.len();
        hand.upto.retain(|_, upto| *upto > handed);
        hand.upto.len() < before
    }

    /// Says whether a client is told the end of a split now, and books that it is.
    ///
    /// A split that several clients have in hand waits until one has. `is_pressed` says that it is to wait no
    /// longer: then the dispatcher hears who has it, and after that each of them is told (D5.6).
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

    /// Notes which clients have a split in hand, if several have.
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

    /// Returns whether [`Debts::take_shared`] has something.
    pub(super) fn has_unsaid(&self) -> bool {
        self.shared.values().any(|shared| !shared.is_said)
    }

    /// Returns the shared splits that nobody has begun to tell the dispatcher, by client.
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

    /// Notes that the dispatcher knows of a client that has these shared splits in hand.
    pub(super) fn heard_shared(&mut self, client: u64, leases: &[u64]) {
        for lease in leases {
            if let Some(shared) = self.shared.get_mut(lease) {
                shared.unheard.remove(&client);
            }
        }
    }

    /// Notes that a client is told nothing more.
    pub(super) fn leave(&mut self, client: u64) {
        for shared in self.shared.values_mut() {
            shared.untold.remove(&client);
        }
    }

    /// Returns whether another client has elements of this split in hand.
    fn have_others(&self, client: u64, lease: u64) -> bool {
        let mut others = self.clients.iter().filter(|(other, _)| **other != client);
        others.any(|(_, hand)| hand.upto.contains_key(&lease))
    }

    /// Returns whether a client that is gone had elements of this split, and the dispatcher does not know it
    /// yet.
    fn is_missed(&self, lease: u64) -> bool {
        self.missed.values().any(|missed| missed.leases.contains(&lease))
    }

    /// Returns whether the dispatcher has to be told something.
    pub(super) fn has_missed(&self) -> bool {
        !self.missed.is_empty()
    }

    /// A client has all that it will ever get, and answers for what its user is not done with.
    pub(super) fn end(&mut self, client: u64) {
        let hand = self.clients.remove(&client).filter(|hand| !hand.upto.is_empty());
        if let Some(hand) = hand {
            self.ended.insert(client, hand.upto.into_keys().collect());
        }
    }

    /// The dispatcher has ended a client. Returns what it does not know of that client's hand.
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

    /// A client is gone with what it had in hand. True if that was anything.
    pub(super) fn miss(&mut self, client: u64) -> bool {
        let Some(hand) = self.clients.remove(&client).filter(|hand| !hand.upto.is_empty()) else {
            return false;
        };
        let missed = self.missed.entry(client).or_default();
        missed.leases.extend(hand.upto.into_keys());
        missed.is_told = false;
        true
    }

    /// Takes the splits that nobody has begun to tell the dispatcher of, by client.
    pub(super) fn take_untold(&mut self) -> Vec<(u64, Vec<u64>)> {
        let untold = self.missed.iter_mut().filter(|(_, missed)| !missed.is_told);
        let untold = untold.map(|(client, missed)| {
            missed.is_told = true;
            (*client, missed.leases.iter().copied().collect())
        });
        untold.collect()
    }

    /// The dispatcher has heard that a client is gone with these splits.
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
        /// A client is given one element of these splits.
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

    /// D5.6: told to one of the two alone, it would be done while the other can still lose it.
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
        assert_eq!(debts.tell_end(1, 7, true), EndTold::NotNow, "2 is not known");
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
        assert_eq!(debts.tell_end(2, 7, true), EndTold::NotNow, "it is missed");
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
        assert_eq!(debts.release(1), [7], "it was ended before it could say so");
    }
}
