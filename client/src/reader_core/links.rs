//! Links to workers: their start, their loss, their messages, and their reports.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_control::ClientLinks;
use millstream_dataplane::proto::message::{Hello, ToWorker};
use millstream_dataplane::transport::LinkReport;

use super::auto::LOCAL_ROUND_TRIP;
use super::entry::Entry;
use super::state::ReaderCore;
use crate::place::WorkerPlace;

/// The answer to a link that asks for its next message.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// The link sends this message.
    Message(ToWorker),
    /// The link closes, because the worker has moved to another socket.
    Moved,
}

impl ReaderCore {
    /// Handles a new link to a worker: greets the worker, and subscribes to its tasks.
    pub(crate) fn handle_link_up(&mut self, worker: &str, place: &WorkerPlace, is_local: bool) {
        let worker: Arc<str> = worker.into();
        let Some(outbox) = self.links.get_mut(&worker) else {
            return;
        };
        self.reconnects += u64::from(self.reports.contains_key(&*worker));
        (outbox.is_up, outbox.is_local) = (true, is_local);
        outbox.has_moved = outbox.place.has_moved_from(place);
        outbox.messages.clear();
        outbox.push(ToWorker::Hello(Hello::current()));
        let of_worker = |entry: &&mut Entry| entry.worker == worker && entry.is_wanted();
        for entry in self.tasks.values_mut().filter(of_worker) {
            entry.is_local = is_local;
            outbox.push(ToWorker::Subscribe(entry.subscribe()));
        }
        self.stir(&worker);
    }

    /// Returns the number of links to workers that had an earlier link.
    pub(crate) fn reconnects(&self) -> u64 {
        self.reconnects
    }

    /// Handles the loss of a link: writes off its credits, so that other tasks can use them.
    pub(crate) fn handle_link_lost(&mut self, worker: &str) {
        self.auto.forget(worker);
        if let Some(outbox) = self.links.get_mut(worker) {
            (outbox.is_up, outbox.packs_on_way) = (false, 0);
            outbox.messages.clear();
        }
        for entry in self.tasks.values_mut().filter(|entry| &*entry.worker == worker) {
            entry.handle_link_lost();
        }
        self.judge_unreachable();
        self.distribute();
    }

    /// Notes that the link to a worker was lost, for a report to the dispatcher.
    pub(crate) fn note_suspect(&mut self, worker: &str) {
        self.unreported.note_suspect(worker);
    }

    /// Returns the place of the worker if the reader still reads any of its tasks. After `None`, a later task
    /// of the worker needs a new driver.
    pub(crate) fn place_if_wanted(&mut self, worker: &str) -> Option<WorkerPlace> {
        let of_worker = |entry: &Entry| &*entry.worker == worker && entry.is_wanted();
        let is_wanted = self.failure.is_none() && self.tasks.values().any(of_worker);
        if !is_wanted {
            self.links.remove(worker);
        }
        self.links.get(worker).map(|outbox| outbox.place.clone())
    }

    /// Returns the next action of the link to a worker; `None` if the link has nothing to send.
    pub(crate) fn next_message(&mut self, worker: &str) -> Option<Outgoing> {
        let outbox = self.links.get_mut(worker)?;
        if outbox.has_moved {
            return Some(Outgoing::Moved);
        }
        outbox.messages.pop_front().map(Outgoing::Message)
    }

    /// Notes the latest report on a link.
    pub(crate) fn note_link(&mut self, worker: &str, report: LinkReport) {
        let is_local = self.links.get(worker).is_some_and(|outbox| outbox.is_local);
        let on_host = is_local.then_some(LOCAL_ROUND_TRIP);
        if let Some(round_trip) = report.round_trip.or(on_host) {
            self.auto.note_round_trip(worker, round_trip);
        }
        self.reports.insert(worker.to_owned(), report);
    }

    /// Returns the present links by transport, and the reason of the first link that crosses a network.
    pub(crate) fn client_links(&self) -> ClientLinks {
        let mut links = ClientLinks::default();
        let is_up = |worker: &str| self.links.get(worker).is_some_and(|outbox| outbox.is_up);
        for (_, report) in self.reports.iter().filter(|(worker, _)| is_up(worker)) {
            let before = links.counts.network;
            links.counts.add(report.transport);
            if links.counts.network > before && links.network_reason.is_none() {
                links.network_reason = report.not_better.as_deref().map(str::to_owned);
            }
        }
        links
    }

    /// Returns the latest report on each link, by worker.
    pub(crate) fn reports(&self) -> &BTreeMap<String, LinkReport> {
        &self.reports
    }
}
