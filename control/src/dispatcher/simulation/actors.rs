//! Naive workers and clients: just enough to do everything the protocol allows.

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
    /// Its process runs.
    pub(super) alive: bool,
    /// Nothing passes between it and the dispatcher; clients still reach it.
    pub(super) cut_off: bool,
    pub(super) tasks: BTreeMap<TaskId, SimTask>,
}

/// A task on a worker.
#[derive(Debug, Default)]
pub(super) struct SimTask {
    pub(super) pass: u64,
    pub(super) splits: VecDeque<(SplitName, u64)>,
    pub(super) buffer: VecDeque<Element>,
    pub(super) finished: bool,
    pub(super) delivered_told: bool,
}

impl SimTask {
    pub(super) fn take(&mut self, runs: &[Run]) {
        for run in runs {
            for offset in 0..run.count {
                let split = (run.repetition, run.first_index + offset);
                self.splits.push_back((split, run.first_lease + offset));
            }
        }
    }

    /// Computes the next split's elements.
    pub(super) fn produce(&mut self) {
        if let Some((split, lease)) = self.splits.pop_front() {
            self.buffer
                .extend((0..ELEMENTS).map(|number| Element { split, lease, number }));
        }
    }
}

#[derive(Debug)]
pub(super) struct SimClient {
    pub(super) session: SessionId,
    pub(super) id: ClientId,
    pub(super) alive: bool,
    /// Its pushes are lost: it is reconnecting.
    pub(super) deaf: bool,
    pub(super) tasks: BTreeSet<TaskId>,
    /// Removals it was told of and has not acknowledged.
    pub(super) to_acknowledge: BTreeSet<TaskId>,
    /// Leases by task, with whether all of it has arrived.
    pub(super) seen: BTreeMap<TaskId, BTreeMap<u64, bool>>,
    /// Whole splits it has not reported.
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

    pub(super) fn receive(&mut self, task: TaskId, element: Element) {
        let seen = self.seen.entry(task).or_default();
        let whole = seen.entry(element.lease).or_default();
        *whole |= element.is_last();
        if element.is_last() {
            self.to_report.entry(task).or_default().push(element.lease);
        }
    }
}
