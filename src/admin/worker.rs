//! A worker as the subject of an admin port.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream_admin::{Exposition, Page, Subject};
use millstream_dataplane::transport::LinkReport;
use millstream_dataplane::worker::{ArenaStats, CacheStats};
use serde::Serialize;

use super::hidden::hidden;
use super::metrics::process_metrics;
use super::rows::{Rows, json_text};
use crate::worker::WorkerObserver;

/// Maximum number of links in the JSON status.
const LINKS_MAX: usize = 1000;

/// A worker of this process that an admin port shows.
#[derive(Debug)]
pub struct WorkerSubject {
    observer: WorkerObserver,
}

/// The state of a worker at one moment.
#[derive(Clone, Debug)]
pub struct WorkerFacts {
    is_leaving: bool,
    has_ended: bool,
    elements: u64,
    bytes: u64,
    packs: u64,
    bytes_copied: u64,
    sessions: u64,
    links: Vec<LinkReport>,
    cache: CacheStats,
    arenas: ArenaStats,
}

impl WorkerSubject {
    /// Returns the subject for a worker's observer.
    pub fn new(observer: WorkerObserver) -> WorkerSubject {
        WorkerSubject { observer }
    }
}

impl WorkerFacts {
    /// Counts the links by their transport.
    fn links_by_transport(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::from([("memory", 0), ("quic", 0), ("shm", 0)]);
        for link in &self.links {
            *counts.entry(link.transport).or_default() += 1;
        }
        counts
    }

    fn longest_round_trip_s(&self) -> Option<f64> {
        let times = self.links.iter().filter_map(|link| link.round_trip);
        times.max().map(|time| time.as_secs_f64())
    }
}

impl Subject for WorkerSubject {
    type Facts = WorkerFacts;

    async fn observe(&self) -> Result<WorkerFacts, String> {
        let server = self.observer.server();
        let counters = server.counters();
        // Relaxed: the counters are independent and only serve people.
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Ok(WorkerFacts {
            is_leaving: self.observer.is_leaving(),
            has_ended: self.observer.has_ended(),
            elements: read(&counters.elements),
            bytes: read(&counters.bytes),
            packs: read(&counters.packs),
            bytes_copied: read(&counters.bytes_copied),
            sessions: read(&counters.sessions),
            links: server.links(),
            cache: server.cache(),
            arenas: server.arenas(),
        })
    }

    fn ready(&self, facts: &WorkerFacts) -> Result<(), String> {
        match (facts.has_ended, facts.is_leaving) {
            (true, _) => Err("the worker has ended".to_owned()),
            (false, true) => Err("the worker shuts down: it takes no more tasks".to_owned()),
            (false, false) => Ok(()),
        }
    }

    fn metrics(&self, facts: &WorkerFacts) -> Exposition {
        let mut found = process_metrics();
        for (name, help, value) in counters(facts) {
            found.counter(name, help, &[], value as f64);
        }
        for (transport, count) in facts.links_by_transport() {
            let labels = [("transport", transport)];
            let help = "Links with readers by transport.";
            found.gauge("worker_links", help, &labels, count as f64);
        }
        if let Some(seconds) = facts.longest_round_trip_s() {
            let help = "Longest round-trip time of a link.";
            found.gauge("worker_round_trip_seconds", help, &[], seconds);
        }
        for (name, help, value) in gauges(facts) {
            found.gauge(name, help, &[], value as f64);
        }
        found
    }

    fn status(&self, facts: &WorkerFacts) -> String {
        json_text(&StatusDocument::new(self.observer.address(), facts))
    }

    fn without_secrets(&self, text: String) -> String {
        hidden(text)
    }

    fn page(&self, _: &str) -> Option<Page> {
        None
    }
}

/// A metric without labels: its name, its help text, and its value.
type Figure = (&'static str, &'static str, u64);

fn counters(facts: &WorkerFacts) -> [Figure; 8] {
    [
        (
            "worker_elements_total",
            "Elements that left the buffers for readers.",
            facts.elements,
        ),
        (
            "worker_bytes_total",
            "Bytes of the elements that left the buffers.",
            facts.bytes,
        ),
        (
            "worker_packs_total",
            "Packs in which elements left the buffers.",
            facts.packs,
        ),
        (
            "worker_copied_bytes_total",
            "Payload bytes that the worker copied for links.",
            facts.bytes_copied,
        ),
        (
            "worker_sessions_total",
            "Sessions of readers since the start.",
            facts.sessions,
        ),
        (
            "worker_cache_hits_total",
            "Elements that another trainer had before, from the cache.",
            facts.cache.hits,
        ),
        (
            "worker_cache_misses_total",
            "Elements that no trainer had before, for the cache.",
            facts.cache.misses,
        ),
        (
            "worker_arena_fallbacks_total",
            "Slots that did not fit into the shared memory of their task.",
            facts.arenas.fallbacks,
        ),
    ]
}

fn gauges(facts: &WorkerFacts) -> [Figure; 3] {
    [
        (
            "worker_cache_bytes",
            "Bytes in the caches between trainers.",
            facts.cache.bytes,
        ),
        (
            "worker_arena_bytes",
            "Bytes of shared memory that are held.",
            facts.arenas.held_bytes,
        ),
        (
            "worker_arena_limit_bytes",
            "Maximum bytes of shared memory.",
            facts.arenas.limit_bytes,
        ),
    ]
}

/// The status of a worker.
#[derive(Serialize)]
pub(super) struct StatusDocument<'s> {
    address: &'s str,
    leaving: bool,
    elements: u64,
    bytes: u64,
    links: Rows<'s, LinkReport, LinkRow<'s>>,
    cache: CacheRow,
    shared_memory: SharedMemoryRow,
}

#[derive(Serialize)]
struct LinkRow<'s> {
    transport: &'static str,
    cipher: Option<&'s str>,
    mtu: Option<u16>,
    gso: bool,
    gro: bool,
    rcvbuf_bytes: Option<usize>,
    round_trip_ms: Option<f64>,
    lost_packets: u64,
    bytes_copied: u64,
    packs: u64,
}

#[derive(Serialize)]
struct CacheRow {
    tasks: u64,
    hits: u64,
    misses: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct SharedMemoryRow {
    held_bytes: u64,
    limit_bytes: u64,
    fallbacks: u64,
}

impl<'s> StatusDocument<'s> {
    pub(super) fn new(address: &'s str, facts: &'s WorkerFacts) -> StatusDocument<'s> {
        let (cache, arenas) = (facts.cache, facts.arenas);
        StatusDocument {
            address,
            leaving: facts.is_leaving,
            elements: facts.elements,
            bytes: facts.bytes,
            links: Rows(&facts.links[..facts.links.len().min(LINKS_MAX)], link),
            cache: CacheRow {
                tasks: cache.tasks,
                hits: cache.hits,
                misses: cache.misses,
                bytes: cache.bytes,
            },
            shared_memory: SharedMemoryRow {
                held_bytes: arenas.held_bytes,
                limit_bytes: arenas.limit_bytes,
                fallbacks: arenas.fallbacks,
            },
        }
    }
}

fn link(link: &LinkReport) -> LinkRow<'_> {
    LinkRow {
        transport: link.transport,
        cipher: link.cipher.as_deref(),
        mtu: link.mtu,
        gso: link.gso,
        gro: link.gro,
        rcvbuf_bytes: link.rcvbuf_bytes,
        round_trip_ms: link.round_trip.map(|time| time.as_secs_f64() * 1e3),
        lost_packets: link.lost_packets,
        bytes_copied: link.bytes_copied,
        packs: link.packs,
    }
}

/// Returns the facts of a worker with one link, for tests.
#[cfg(test)]
pub(super) fn example() -> WorkerFacts {
    WorkerFacts {
        is_leaving: false,
        has_ended: false,
        elements: 1,
        bytes: 8,
        packs: 1,
        bytes_copied: 8,
        sessions: 1,
        links: vec![LinkReport::default()],
        cache: CacheStats::default(),
        arenas: ArenaStats::default(),
    }
}
