//! The state of a reader: the tasks, the links, and the elements that wait for the consumer.
//!
//! Events go in: frames from workers, events of the iteration, calls of the consumer, and the time. Messages
//! to workers, elements, reports and notices come out. Refuses to know locks, threads, sockets and clocks.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use millstream_dataplane::TaskId;
use millstream_dataplane::proto::message::ToWorker;
use millstream_dataplane::transport::{Body, LinkReport};
use millstream_element::Pack;
use smallvec::SmallVec;
use tokio::time::Instant;

use super::auto::Auto;
use super::credit::Bounds;
use super::delivery::Delivery;
use super::entry::Entry;
use super::looks::Looks;
use super::losses::Losses;
use super::outbox::Outbox;
use super::recent::Recent;
use super::schedule::Schedule;
use super::trouble::{Outages, Trouble};
use super::unreported::Unreported;
use crate::error::ReadError;

/// The fixed properties of a reader.
#[derive(Debug)]
pub(crate) struct Reading {
    /// The bounds of what may be outstanding.
    pub(crate) bounds: Bounds,
    /// Whether this reader is one of several consumers that read in step.
    pub(crate) is_coordinated: bool,
    /// The trainer as which the iteration is read, through the cross-trainer cache.
    pub(crate) trainer_id: Option<Arc<str>>,
    /// Whether a split is one element at most.
    pub(crate) whole_splits: bool,
}

/// Everything that a reader knows of one iteration.
#[derive(Debug)]
pub(crate) struct ReaderCore {
    pub(super) bounds: Bounds,
    pub(super) auto: Auto,
    pub(super) recent: Recent,
    pub(super) tasks: BTreeMap<TaskId, Entry>,
    pub(super) links: BTreeMap<Arc<str>, Outbox>,
    pub(super) ready: VecDeque<Delivery>,
    /// The order of turns, in coordinated reads: there each task keeps its arrivals.
    pub(super) schedule: Option<Schedule>,
    pub(super) at_hand: Option<TaskId>,
    pub(super) at_hand_settled: u64,
    /// The consumer has not come back for more, so it may still use the latest element of those at hand.
    pub(super) is_in_use: bool,
    /// The dispatcher may have ended this reader, so that nothing more is handed over.
    pub(super) is_fenced: bool,
    /// The pack at hand, or last at hand while the consumer waits: its elements all count as seen.
    pub(super) at_hand_pack: Option<(TaskId, Pack)>,
    /// The elements that the consumer was given and has not yet taken in hand. They count as seen.
    pub(super) given: Option<(TaskId, Body)>,
    /// Splits that were lost, and why their workers went.
    pub(super) losses: Losses,
    /// The latest report of each link.
    pub(super) reports: BTreeMap<String, LinkReport>,
    pub(super) unreported: Unreported,
    pub(super) grants: u64,
    /// Elements that were handed over since credits were last distributed.
    pub(super) undistributed: u64,
    /// The number of free credits that are distributed at once: an eighth of those that may be outstanding,
    /// so that a grant is worth its message.
    pub(super) distribute_at: u64,
    pub(super) is_open: bool,
    pub(super) is_iteration_over: bool,
    pub(super) failure: Option<ReadError>,
    pub(super) outages: Outages,
    /// There is no task to read.
    pub(super) idle: Option<Trouble>,
    /// The account of what the consumer was found to wait for.
    pub(super) looks: Looks,
    /// Some worker or task was given up at some time.
    pub(super) has_given_up: bool,
    /// The present time, as the caller told it last.
    pub(super) now: Instant,
    /// The trainer as which the iteration is read, through the cross-trainer cache.
    pub(super) trainer_id: Option<Arc<str>>,
    /// Whether a split is one element at most.
    pub(super) whole_splits: bool,
    /// Workers with messages of which the caller has not heard.
    pub(super) stirred: SmallVec<[Arc<str>; 4]>,
}

impl ReaderCore {
    pub(crate) fn new(reading: Reading, now: Instant) -> Self {
        Self {
            bounds: reading.bounds,
            auto: Auto::default(),
            recent: Recent::default(),
            tasks: BTreeMap::new(),
            links: BTreeMap::new(),
            ready: VecDeque::new(),
            schedule: reading.is_coordinated.then(Schedule::default),
            at_hand: None,
            at_hand_settled: 0,
            is_in_use: false,
            is_fenced: false,
            at_hand_pack: None,
            given: None,
            losses: Losses::default(),
            reports: BTreeMap::new(),
            unreported: Unreported::default(),
            grants: 0,
            undistributed: 0,
            distribute_at: 1,
            is_open: false,
            is_iteration_over: false,
            failure: None,
            outages: Outages::default(),
            idle: None,
            looks: Looks::default(),
            has_given_up: false,
            now,
            trainer_id: reading.trainer_id,
            whole_splits: reading.whole_splits,
            stirred: SmallVec::new(),
        }
    }

    /// Tells the core what time it is. Time never goes back.
    pub(crate) fn pass(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// Returns the workers that have got messages since the last call; `true` for those of this host.
    pub(crate) fn take_stirred(&mut self) -> SmallVec<[(Arc<str>, bool); 4]> {
        let links = &self.links;
        let is_local = |worker: &Arc<str>| links.get(worker).is_some_and(|outbox| outbox.is_local);
        self.stirred
            .drain(..)
            .map(|worker| {
                let is_local = is_local(&worker);
                (worker, is_local)
            })
            .collect()
    }

    /// Puts a message into the outbox of a worker whose link is up.
    pub(super) fn push(&mut self, worker: &Arc<str>, message: ToWorker) {
        if let Some(outbox) = self.links.get_mut(worker).filter(|outbox| outbox.is_up) {
            outbox.push(message);
            self.stir(worker);
        }
    }

    pub(super) fn stir(&mut self, worker: &Arc<str>) {
        if self.stirred.last().is_none_or(|last| last != worker) {
            self.stirred.push(Arc::clone(worker));
        }
    }
}
