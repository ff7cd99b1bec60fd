//! The state of a reader: its tasks, its links, and the elements that wait for the consumer.
//!
//! Inputs are frames from workers, events of the iteration, calls of the consumer, and the time. Outputs are
//! messages to workers, elements, reports and notices. This file does not know locks, threads, sockets and
//! clocks.
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
    /// The limits of outstanding elements and bytes.
    pub(crate) bounds: Bounds,
    /// True if this reader is one of several consumers of a coordinated read.
    pub(crate) is_coordinated: bool,
    /// The trainer name under which the iteration is read through the cross-trainer cache.
    pub(crate) trainer_id: Option<Arc<str>>,
    /// True if every split has at most one element.
    pub(crate) whole_splits: bool,
    /// True if the job is an exactly-once job, which loses no splits.
    pub(crate) is_exactly_once: bool,
}

/// The state of a reader of one iteration.
#[derive(Debug)]
pub(crate) struct ReaderCore {
    pub(super) bounds: Bounds,
    pub(super) auto: Auto,
    pub(super) recent: Recent,
    pub(super) tasks: BTreeMap<TaskId, Entry>,
    pub(super) links: BTreeMap<Arc<str>, Outbox>,
    pub(super) ready: VecDeque<Delivery>,
    /// The order of turns, in coordinated reads only. In a coordinated read, each task keeps its own arrived
    /// elements.
    pub(super) schedule: Option<Schedule>,
    pub(super) at_hand: Option<TaskId>,
    pub(super) at_hand_settled: u64,
    /// True if the user may still use the latest element handed over, because it has not asked for another.
    pub(super) is_in_use: bool,
    /// True if the dispatcher may have ended this reader's lease, so that no elements are handed over.
    pub(super) is_fenced: bool,
    /// The pack that the consumer has open, or had open last. All its elements count as seen.
    pub(super) at_hand_pack: Option<(TaskId, Pack)>,
    /// The delivery that the consumer took but has not opened yet. The elements of this delivery count as
    /// seen.
    pub(super) given: Option<(TaskId, Body)>,
    /// The lost splits, and the reasons why their workers were removed.
    pub(super) losses: Losses,
    /// The latest report on each link, by worker.
    pub(super) reports: BTreeMap<String, LinkReport>,
    pub(super) unreported: Unreported,
    pub(super) grants: u64,
    /// The number of elements handed over since credits were last distributed.
    pub(super) undistributed: u64,
    /// The number of hand-overs that triggers a distribution of credits: an eighth of the outstanding limit,
    /// which limits the number of grant messages.
    pub(super) distribute_at: u64,
    pub(super) is_open: bool,
    pub(super) is_iteration_over: bool,
    pub(super) failure: Option<ReadError>,
    pub(super) outages: Outages,
    /// The time without any task to read; `None` while the reader has tasks.
    pub(super) idle: Option<Trouble>,
    /// The counts of the parts of the service that the consumer was found to wait for.
    pub(super) looks: Looks,
    /// The number of links to workers that had an earlier link.
    pub(super) reconnects: u64,
    /// True if any worker or task was ever given up.
    pub(super) has_given_up: bool,
    /// The current time, as last supplied by the caller.
    pub(super) now: Instant,
    /// The trainer name under which the iteration is read through the cross-trainer cache.
    pub(super) trainer_id: Option<Arc<str>>,
    /// True if every split has at most one element.
    pub(super) whole_splits: bool,
    pub(super) is_exactly_once: bool,
    /// Workers with new messages that the caller does not know of yet.
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
            reconnects: 0,
            has_given_up: false,
            now,
            trainer_id: reading.trainer_id,
            whole_splits: reading.whole_splits,
            is_exactly_once: reading.is_exactly_once,
            stirred: SmallVec::new(),
        }
    }

    /// Sets the current time. The time never goes back.
    pub(crate) fn pass(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    /// Returns the workers that got messages since the last call, each with `true` if it is on this host.
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

    /// Puts a message into the outbox of a worker if its link is up.
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
