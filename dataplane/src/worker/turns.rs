//! Decides the order in which clients that wait for one task's elements are served.
//!
//! Elements are scarce when a client with credits finds none. While elements are scarce, the client that has
//! had the fewest elements is served first. It leaves the other waiting clients their share of the ready
//! elements. If no client waits, each client takes all ready elements.
//!
//! The module owns counts only; elements, credits and sessions are unknown to it. The module is pure: the
//! caller passes in the time.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The time for which other clients wait for the client whose turn it is. A running session responds within a
/// fraction of the time. A blocked session holds the others up once, and has a turn again after it asks.
const TURN_PATIENCE: Duration = Duration::from_millis(20);

/// The answer to a client that asks for elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// The client may take at most this number of elements.
    Take(u64),
    /// The client must leave the ready elements to another client. The client asks again after the other
    /// client took elements, or at this time.
    Wait(Instant),
}

/// The clients of a task, and the number of elements that each has had.
#[derive(Debug, Default)]
pub(super) struct Turns {
    clients: BTreeMap<u64, Standing>,
    /// The count of the client that was served last, before it was served. A client that begins to wait
    /// counts from this number, because it has no claim to elements that others took before.
    served_at: u64,
}

#[derive(Debug, Default)]
struct Standing {
    /// The number of elements that count as the client's: those that it took, and those that other clients
    /// took while this client was not waiting for elements.
    had: u64,
    /// True if the client wants elements and has found none since it last took elements.
    is_waiting: bool,
    /// The time at which another client first had to wait for this client.
    called_at: Option<Instant>,
}

impl Turns {
    /// Adds a client, if it is not known yet.
    pub(super) fn add(&mut self, client: u64) {
        self.clients.entry(client).or_default();
    }

    /// Forgets a client.
    pub(super) fn remove(&mut self, client: u64) {
        self.clients.remove(&client);
    }

    /// Returns whether another client waits for elements.
    pub(super) fn is_contended(&self, client: u64) -> bool {
        self.clients.len() > 1
            && self
                .clients
                .iter()
                .any(|(other, standing)| *other != client && standing.is_waiting)
    }

    /// Returns what a client with `wanted` credits may do while `ready` elements wait.
    pub(super) fn turn(&mut self, client: u64, wanted: u64, ready: u64, now: Instant) -> Turn {
        while self.is_contended(client) {
            let own = self.count_of(client);
            let others = self.clients.iter_mut();
            let waiting = others.filter(|(other, standing)| **other != client && standing.is_waiting);
            let (mut sharers, mut next) = (1, None::<&mut Standing>);
            for (_, standing) in waiting {
                sharers += 1;
                if next.as_ref().is_none_or(|least| standing.had < least.had) {
                    next = Some(standing);
                }
            }
            let Some(next) = next else { break };
            if own <= next.had {
                let share = (next.had - own).saturating_add(ready / sharers).max(1);
                return Turn::Take(wanted.min(share));
            }
            let called_at = *next.called_at.get_or_insert(now);
            if now.saturating_duration_since(called_at) < TURN_PATIENCE {
                self.wait(client);
                return Turn::Wait(called_at + TURN_PATIENCE);
            }
            (next.is_waiting, next.called_at) = (false, None);
        }
        Turn::Take(wanted)
    }

    /// Records that a client wants elements, but none are available for it now.
    pub(super) fn wait(&mut self, client: u64) {
        if self.clients.len() < 2 {
            return;
        }
        let had = self.count_of(client);
        if let Some(standing) = self.clients.get_mut(&client) {
            (standing.had, standing.is_waiting) = (had, true);
        }
    }

    /// Records that a client took elements.
    pub(super) fn took(&mut self, client: u64, elements: u64) {
        if self.clients.len() < 2 {
            return;
        }
        let before = self.count_of(client);
        if let Some(standing) = self.clients.get_mut(&client) {
            self.served_at = self.served_at.max(before);
            *standing = Standing {
                had: before.saturating_add(elements),
                is_waiting: false,
                called_at: None,
            };
        }
    }

    /// Returns a client's rank. Clients with lower ranks are served first.
    pub(super) fn rank(&self, client: u64) -> (bool, u64) {
        let standing = self.clients.get(&client);
        let is_waiting = standing.is_some_and(|standing| standing.is_waiting);
        (!is_waiting, self.count_of(client))
    }

    fn count_of(&self, client: u64) -> u64 {
        match self.clients.get(&client) {
            Some(standing) if standing.is_waiting => standing.had,
            Some(standing) => standing.had.max(self.served_at),
            None => self.served_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[expect(
        clippy::disallowed_methods,
        reason = "the test counts from an arbitrary instant"
    )]
    fn start() -> Instant {
        Instant::now()
    }

    fn turns(clients: u64) -> Turns {
        let mut turns = Turns::default();
        (0..clients).for_each(|client| turns.add(client));
        turns
    }

    #[test]
    fn an_only_client_takes_whatever_it_wants() {
        let mut turns = turns(1);
        turns.wait(0);
        assert_eq!(turns.turn(0, 100, 1, start()), Turn::Take(100));
    }

    #[test]
    fn plenty_is_taken_in_whole_packs() {
        let mut turns = turns(2);
        for _ in 0..10 {
            assert_eq!(turns.turn(0, 8192, 9000, start()), Turn::Take(8192));
            turns.took(0, 8192);
        }
    }

    #[test]
    fn single_elements_alternate_between_waiting_clients() {
        let (mut turns, now) = (turns(2), start());
        turns.wait(0);
        turns.wait(1);
        let mut had = [0; 2];
        for _ in 0..10 {
            // Client 0 always asks before client 1.
            for client in [0, 1] {
                if turns.turn(client, 100, 1, now) == Turn::Take(1) {
                    turns.took(client, 1);
                    turns.wait(client);
                    had[client as usize] += 1;
                    break;
                }
            }
        }
        assert_eq!(had, [5, 5]);
    }

    #[test]
    fn a_stuck_client_holds_others_up_once() {
        let (mut turns, now) = (turns(2), start());
        turns.wait(1);
        turns.took(0, 5);
        assert_eq!(turns.turn(0, 9, 1, now), Turn::Wait(now + TURN_PATIENCE));
        let later = now + TURN_PATIENCE;
        assert_eq!(turns.turn(0, 9, 1, later), Turn::Take(9));
        turns.took(0, 1);
        assert_eq!(turns.turn(0, 9, 1, later), Turn::Take(9));
        // Client 1 asks again, and has no claim to elements that client 0 took meanwhile.
        turns.wait(1);
        turns.took(0, 1);
        turns.wait(0);
        assert_eq!(turns.turn(1, 9, 1, later), Turn::Take(2));
    }

    #[test]
    fn a_client_that_wanted_nothing_is_owed_nothing() {
        let (mut turns, now) = (turns(2), start());
        for _ in 0..1000 {
            turns.took(0, 10);
        }
        turns.wait(0);
        turns.wait(1);
        let Turn::Take(share) = turns.turn(1, 10_000, 2, now) else {
            panic!("the client that had fewer elements must be served first")
        };
        assert!(share <= 11, "{share}");
    }

    proptest! {
        /// Clients ask in any order when elements are ready, and always want more. No client gets more
        /// elements than another by more than the number that were ready at once. No client waits while an
        /// element is ready and no other client is before it.
        #[test]
        fn waiting_clients_get_even_shares(
            clients in 2u64..6,
            rounds in prop::collection::vec((1u64..20, prop::collection::vec(any::<prop::sample::Index>(), 12)), 1..80),
        ) {
            let (mut turns, now) = (turns(clients), start());
            (0..clients).for_each(|client| turns.wait(client));
            let mut had = vec![0u64; clients as usize];
            for (mut ready, order) in rounds {
                let most = ready;
                let order = order.iter().map(|index| index.index(clients as usize) as u64);
                // In the end, every client asks until no element is left.
                for client in order.chain((0..clients).cycle().take(clients as usize * 40)) {
                    if ready == 0 {
                        break;
                    }
                    if let Turn::Take(share) = turns.turn(client, u64::MAX, ready, now) {
                        let taken = share.min(ready);
                        turns.took(client, taken);
                        turns.wait(client);
                        had[client as usize] += taken;
                        ready -= taken;
                    }
                }
                prop_assert_eq!(ready, 0, "an element was not taken by any client");
                let (least, greatest) = (had.iter().min().unwrap(), had.iter().max().unwrap());
                prop_assert!(greatest - least <= most + 1, "{:?}", had);
            }
        }
    }
}
