//! What the next signs of life say of the pace of tasks and clients.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;

use crate::id::{ClientId, TaskId};
use crate::links::LinkCounts;
use crate::pace::Pace;

/// What is passed on at once: of tasks, and of clients.
type Taken = (Vec<(TaskId, Pace)>, Vec<(ClientId, Pace)>);

/// The latest pace of each who has said one since it was last passed on.
#[derive(Debug, Default)]
pub(crate) struct Paces {
    tasks: Waiting<TaskId>,
    clients: Waiting<ClientId>,
    links: Option<LinkCounts>,
}

#[derive(Debug)]
struct Waiting<K> {
    paces: BTreeMap<K, Pace>,
    /// Whose turn comes behind this one.
    last: Option<K>,
}

impl<K> Default for Waiting<K> {
    fn default() -> Waiting<K> {
        Waiting {
            paces: BTreeMap::new(),
            last: None,
        }
    }
}

impl Paces {
    /// A task's, instead of what it said before.
    pub(crate) fn note_task(&mut self, task: TaskId, pace: Pace) {
        self.tasks.paces.insert(task, pace);
    }

    /// The worker's links, instead of what it said before.
    pub(crate) fn note_links(&mut self, links: LinkCounts) {
        self.links = Some(links);
    }

    /// What is to be said of the links, once.
    pub(crate) fn take_links(&mut self) -> Option<LinkCounts> {
        self.links.take()
    }

    /// A client's.
    pub(crate) fn note_client(&mut self, client: ClientId, pace: Pace) {
        self.clients.paces.insert(client, pace);
    }

    /// Forgets a client that is gone.
    pub(crate) fn forget_client(&mut self, client: ClientId) {
        self.clients.paces.remove(&client);
    }

    /// At most so many of each, those first that have waited longest for their turn.
    pub(crate) fn take(&mut self, most: usize) -> Taken {
        (self.tasks.take(most), self.clients.take(most))
    }
}

impl<K: Copy + Ord> Waiting<K> {
    fn take(&mut self, most: usize) -> Vec<(K, Pace)> {
        let last = self.last;
        let is_behind = |key: &&K| last.is_none_or(|last| **key > last);
        let behind = self.paces.keys().filter(is_behind);
        let before = self.paces.keys().filter(|key| !is_behind(key));
        let turns: Vec<K> = behind.chain(before).take(most).copied().collect();
        self.last = turns.last().copied();
        let taken = turns.into_iter().filter_map(|key| self.paces.remove_entry(&key));
        taken.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(elements: u64) -> Pace {
        Pace {
            elements,
            element_ns: None,
        }
    }

    #[test]
    fn each_has_its_turn_with_its_latest_pace_however_often_others_speak() {
        let mut paces = Paces::default();
        let mut heard = BTreeMap::new();
        for round in 0..5 {
            for client in 0..10 {
                paces.note_client(ClientId(client), pace(round));
            }
            let (tasks, clients) = paces.take(2);
            assert!(tasks.is_empty());
            for (client, pace) in clients {
                assert_eq!(pace.elements, round);
                heard.insert(client, pace);
            }
        }
        assert_eq!(heard.len(), 10);
    }

    #[test]
    fn what_was_passed_on_or_is_gone_is_not_said_again() {
        let mut paces = Paces::default();
        paces.note_task(TaskId(1), pace(1));
        paces.note_client(ClientId(1), pace(2));
        paces.forget_client(ClientId(1));
        assert_eq!(paces.take(9), (vec![(TaskId(1), pace(1))], Vec::new()));
        assert_eq!(paces.take(9), (Vec::new(), Vec::new()));
    }
}
