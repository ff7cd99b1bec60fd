//! Naive workers and clients that do everything that the protocol allows, and nothing more.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::oracle::{ELEMENTS, SplitName};
use crate::dispatcher::Run;
use crate::id::{ClientId, SessionId, TaskId};

/// An element in a worker's buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Element {
    pub(super) split: SplitName,
    pub(super) lease: u64,
    pub(super) number: u32,
    /// The place among the elements of its task.
    pub(super) position: u64,
}

/// A message on its way from a worker to a client.
#[derive(Clone, Copy, Debug)]
pub(super) enum Sent {
    Element(Element),
    /// The end of a lease: every element was sent, and all other clients have received their elements of
    /// the lease (C5.6).
    Whole(u64),
}

impl Element {
    pub(super) fn is_last(&self) -> bool {
        self.number + 1 == ELEMENTS
    }
}

#[derive(Debug)]
pub(super) struct SimWorker {
    pub(super) session: SessionId,
    pub(super) address: String,
    /// True if the process runs.
    pub(super) alive: bool,
    /// True if no message passes between the worker and the dispatcher. Clients still reach the worker.
    pub(super) cut_off: bool,
    /// True if the worker is shutting down gracefully.
    pub(super) draining: bool,
    pub(super) tasks: BTreeMap<TaskId, SimTask>,
}

/// A task on a worker.
#[derive(Debug, Default)]
pub(super) struct SimTask {
    pub(super) pass: u64,
    pub(super) splits: VecDeque<(SplitName, u64)>,
    /// The leases that the task only reports as skipped.
    pub(super) skipped: BTreeSet<u64>,
    pub(super) buffer: VecDeque<Element>,
    /// The messages in flight, in order for each client.
    pub(super) in_flight: VecDeque<(ClientId, Sent)>,
    /// The leases whose elements were all taken, with the position after their last element.
    pub(super) marks: VecDeque<(u64, u64)>,
    pub(super) produced: u64,
    /// The latest split that the task was leased.
    pub(super) latest: Option<SplitName>,
    pub(super) finished: bool,
    pub(super) delivered_told: bool,
    /// The leases of the elements that were in flight to clients that are gone.
    pub(super) missed: BTreeMap<ClientId, BTreeSet<u64>>,
}

impl SimTask {
    pub(super) fn take(&mut self, runs: &[Run]) {
        for run in runs {
            for offset in 0..run.count {
                let split = (run.repetition, run.first_index + offset);
                self.splits.push_back((split, run.first_lease + offset));
                self.skipped
                    .extend(run.skipped.then_some(run.first_lease + offset));
            }
        }
    }

    /// Returns whether the task would compute a split of this set next, and not skip it.
    pub(super) fn begins_one_of(&self, indices: &BTreeSet<u64>) -> bool {
        let next = self.splits.front();
        next.is_some_and(|((_, index), lease)| indices.contains(index) && !self.skipped.contains(lease))
    }

    /// Computes the next split's elements.
    pub(super) fn produce(&mut self) {
        if let Some((split, lease)) = self.splits.pop_front() {
            let first = self.produced;
            self.produced += u64::from(ELEMENTS);
            self.buffer.extend((0..ELEMENTS).map(|number| Element {
                split,
                lease,
                number,
                position: first + u64::from(number),
            }));
        }
    }

    /// Sends the next element to a client.
    pub(super) fn send(&mut self, to: ClientId) {
        let Some(element) = self.buffer.pop_front() else {
            return;
        };
        let is_missed = self.missed.values().any(|leases| leases.contains(&element.lease));
        if element.is_last() && !is_missed {
            self.marks.push_back((element.lease, element.position + 1));
        }
        self.in_flight.push_back((to, Sent::Element(element)));
    }

    /// Drops the elements in flight to a client, and remembers their leases (C6.7).
    pub(super) fn miss(&mut self, client: ClientId) {
        while let Some(sent) = self.arrive(client) {
            let (Sent::Element(Element { lease, .. }) | Sent::Whole(lease)) = sent;
            self.missed.entry(client).or_default().insert(lease);
        }
        let missed: BTreeSet<u64> = self.missed.values().flatten().copied().collect();
        self.marks.retain(|(lease, _)| !missed.contains(lease));
    }

    /// Tells a client that a lease is complete, if every other client has received all elements sent to it
    /// before.
    pub(super) fn send_mark(&mut self, to: ClientId) {
        let Some((lease, end)) = self.marks.front().copied() else {
            return;
        };
        let before = |sent: &Sent| matches!(sent, Sent::Element(element) if element.position < end);
        if !self
            .in_flight
            .iter()
            .any(|(client, sent)| *client != to && before(sent))
        {
            self.marks.pop_front();
            self.in_flight.push_back((to, Sent::Whole(lease)));
        }
    }

    /// Takes the next message that arrives at a client.
    pub(super) fn arrive(&mut self, at: ClientId) -> Option<Sent> {
        let next = self.in_flight.iter().position(|(client, _)| *client == at)?;
        self.in_flight.remove(next).map(|(_, sent)| sent)
    }

    /// Returns whether a client has received every element that it will ever get.
    pub(super) fn is_drained_by(&self, client: ClientId) -> bool {
        let mut in_flight = self.in_flight.iter();
        self.finished
            && self.buffer.is_empty()
            && self.marks.is_empty()
            && self.missed.is_empty()
            && !in_flight.any(|(to, _)| *to == client)
    }

    pub(super) fn is_delivered(&self) -> bool {
        self.buffer.is_empty() && self.marks.is_empty() && self.in_flight.is_empty() && self.missed.is_empty()
    }
}

#[derive(Debug)]
pub(super) struct SimClient {
    pub(super) session: SessionId,
    pub(super) id: ClientId,
    pub(super) alive: bool,
    /// True if pushes to the client are lost, because it is reconnecting.
    pub(super) deaf: bool,
    pub(super) tasks: BTreeSet<TaskId>,
    /// The removals that the client was told of and has not acknowledged.
    pub(super) to_acknowledge: BTreeSet<TaskId>,
    /// The leases of each task, with whether all elements have arrived.
    pub(super) seen: BTreeMap<TaskId, BTreeMap<u64, bool>>,
    /// The completely received splits that the client has not reported.
    pub(super) to_report: BTreeMap<TaskId, Vec<u64>>,
    pub(super) drained: BTreeSet<TaskId>,
    pub(super) finished: bool,
}

impl SimClient {
    pub(super) fn new(session: SessionId, id: ClientId) -> SimClient {
        SimClient {
            session,
            id,
            alive: true,
            deaf: false,
            tasks: BTreeSet::new(),
            to_acknowledge: BTreeSet::new(),
            seen: BTreeMap::new(),
            to_report: BTreeMap::new(),
            drained: BTreeSet::new(),
            finished: false,
        }
    }

    pub(super) fn receive(&mut self, task: TaskId, sent: Sent) {
        let seen = self.seen.entry(task).or_default();
        match sent {
            Sent::Element(element) => {
                seen.entry(element.lease).or_default();
            }
            Sent::Whole(lease) => {
                seen.insert(lease, true);
                self.to_report.entry(task).or_default().push(lease);
            }
        }
    }
}
