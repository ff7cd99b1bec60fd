//! The measurements of tasks and clients for the next heartbeats.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;

use crate::id::{ClientId, TaskId};
use crate::links::{ClientLinks, LinkCounts};
use crate::load::WorkerLoad;
use crate::pace::{BOTTLENECK_BYTES_MAX, Measures, Pace};
use crate::stage::{self, StagePace};

/// Maximum number of tasks, and of clients, whose paces one heartbeat carries. A task takes 30 bytes and a
/// client 38, so they fit beside the names of the clients. The other paces follow with later heartbeats.
const PACES_MAX: usize = 320;
/// Maximum number of tasks whose bottlenecks one heartbeat carries. At 76 bytes each they fit beside the
/// paces.
const BOTTLENECKS_MAX: usize = 64;
/// Maximum number of clients whose links one heartbeat carries. A client takes at most 140 bytes.
const CLIENT_LINKS_MAX: usize = 32;
/// Maximum number of tasks whose stages one heartbeat carries. A task takes 3 KiB. Only workers report
/// stages, and they have no clients.
const STAGED_MAX: usize = 4;

/// The latest measurements that no heartbeat has carried yet.
#[derive(Debug, Default)]
pub(crate) struct Paces {
    tasks: Waiting<TaskId, Pace>,
    clients: Waiting<ClientId, Pace>,
    links: Option<LinkCounts>,
    client_links: Waiting<ClientId, ClientLinks>,
    bottlenecks: Waiting<TaskId, String>,
    stages: Waiting<TaskId, Vec<StagePace>>,
    load: Option<WorkerLoad>,
}

#[derive(Debug)]
struct Waiting<K, V> {
    latest: BTreeMap<K, V>,
    /// The key that was taken last.
    last: Option<K>,
}

impl<K, V> Default for Waiting<K, V> {
    fn default() -> Waiting<K, V> {
        Waiting {
            latest: BTreeMap::new(),
            last: None,
        }
    }
}

impl Paces {
    /// Notes the latest pace of a task, and replaces an earlier pace.
    pub(crate) fn note_task(&mut self, task: TaskId, pace: Pace) {
        self.tasks.latest.insert(task, pace);
    }

    /// Notes the latest link counts of the worker, and replaces earlier counts.
    pub(crate) fn note_links(&mut self, links: LinkCounts) {
        self.links = Some(links);
    }

    /// Notes the latest bottleneck of a task, and cuts off a name that is too long.
    pub(crate) fn note_bottleneck(&mut self, task: TaskId, name: &str) {
        let name = name[..name.floor_char_boundary(BOTTLENECK_BYTES_MAX)].to_owned();
        self.bottlenecks.latest.insert(task, name);
    }

    /// Notes the latest work of the stages of a task, and cuts it to its limits.
    pub(crate) fn note_stages(&mut self, task: TaskId, mut stages: Vec<StagePace>) {
        stage::cut(&mut stages);
        self.stages.latest.insert(task, stages);
    }

    /// Notes the latest load of the worker, and replaces an earlier load.
    pub(crate) fn note_load(&mut self, load: WorkerLoad) {
        self.load = Some(load);
    }

    /// Notes the latest pace of a client, and replaces an earlier pace.
    pub(crate) fn note_client(&mut self, client: ClientId, pace: Pace) {
        self.clients.latest.insert(client, pace);
    }

    /// Notes the latest links of a client, replaces earlier links, and cuts off a reason that is too long.
    pub(crate) fn note_client_links(&mut self, client: ClientId, links: ClientLinks) {
        self.client_links.latest.insert(client, links.cut());
    }

    /// Forgets the reports of a client that is gone.
    pub(crate) fn forget_client(&mut self, client: ClientId) {
        self.clients.latest.remove(&client);
        self.client_links.latest.remove(&client);
    }

    /// Takes the measurements for the next heartbeat, each once. Measurements that have waited longest are
    /// taken first.
    pub(crate) fn take(&mut self) -> Measures {
        self.take_up_to(PACES_MAX, BOTTLENECKS_MAX)
    }

    fn take_up_to(&mut self, paces: usize, bottlenecks: usize) -> Measures {
        Measures {
            tasks: self.tasks.take(paces),
            clients: self.clients.take(paces),
            links: self.links.take(),
            client_links: self.client_links.take(CLIENT_LINKS_MAX),
            bottlenecks: self.bottlenecks.take(bottlenecks),
            stages: self.stages.take(STAGED_MAX),
            load: self.load.take(),
        }
    }
}

impl<K: Copy + Ord, V> Waiting<K, V> {
    fn take(&mut self, most: usize) -> Vec<(K, V)> {
        let last = self.last;
        let is_behind = |key: &&K| last.is_none_or(|last| **key > last);
        let behind = self.latest.keys().filter(is_behind);
        let before = self.latest.keys().filter(|key| !is_behind(key));
        let turns: Vec<K> = behind.chain(before).take(most).copied().collect();
        self.last = turns.last().copied();
        let taken = turns.into_iter().filter_map(|key| self.latest.remove_entry(&key));
        taken.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::driver::BEAT_CLIENTS_MAX;
    use super::*;
    use crate::links::NETWORK_REASON_BYTES_MAX;
    use crate::rpc::frame::{SMALL_BYTES_MAX, encode};
    use crate::rpc::wire::Beat;

    fn pace(elements: u64) -> Pace {
        Pace {
            elements,
            ..Pace::default()
        }
    }

    #[test]
    fn everybody_reports_the_latest_pace_in_turn() {
        let mut paces = Paces::default();
        let mut heard = BTreeMap::new();
        for round in 0..5 {
            for client in 0..10 {
                paces.note_client(ClientId(client), pace(round));
            }
            let taken = paces.take_up_to(2, 2);
            assert!(taken.tasks.is_empty());
            for (client, pace) in taken.clients {
                assert_eq!(pace.elements, round);
                heard.insert(client, pace);
            }
        }
        assert_eq!(heard.len(), 10);
    }

    #[test]
    fn forwarded_and_finished_reports_are_not_repeated() {
        let mut paces = Paces::default();
        paces.note_task(TaskId(1), pace(1));
        paces.note_client(ClientId(1), pace(2));
        paces.forget_client(ClientId(1));
        paces.note_bottleneck(TaskId(1), &"ä".repeat(BOTTLENECK_BYTES_MAX));
        let said = Measures {
            tasks: vec![(TaskId(1), pace(1))],
            bottlenecks: vec![(TaskId(1), "ä".repeat(BOTTLENECK_BYTES_MAX / 2))],
            ..Measures::default()
        };
        assert_eq!(paces.take(), said);
        assert!(paces.take().is_empty());
    }

    /// C11.1, C11.3
    #[test]
    fn the_largest_heartbeat_of_a_trainer_fits() {
        let mut paces = Paces::default();
        let counts = LinkCounts {
            memory: u64::MAX,
            shared_memory: u64::MAX,
            network: u64::MAX,
        };
        let links = ClientLinks {
            counts,
            network_reason: Some("x".repeat(2 * NETWORK_REASON_BYTES_MAX)),
        };
        let pace = Pace {
            elements: u64::MAX,
            element_ns: Some(u64::MAX),
            waited_ms: u64::MAX,
            busy_ms: 0,
        };
        let clients: Vec<ClientId> = (0..BEAT_CLIENTS_MAX as u64)
            .map(|id| ClientId(u64::MAX - id))
            .collect();
        for client in &clients {
            paces.note_client(*client, pace);
            paces.note_client_links(*client, links.clone());
        }
        let beat = Beat::new(u64::MAX, clients, paces.take());
        assert_eq!(beat.client_links.len(), CLIENT_LINKS_MAX);
        let bytes = encode(&beat).len();
        assert!(bytes <= SMALL_BYTES_MAX, "{bytes}");
    }
}
