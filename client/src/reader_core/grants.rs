//! Credits for workers, and the acknowledgements that the same messages carry.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Arc;
use std::time::Duration;

use millstream_dataplane::TaskId;
use millstream_dataplane::proto::message::{Grant, ToWorker};

use super::credit::{Standing, distribute, distribute_in_turn};
use super::entry::Entry;
use super::state::ReaderCore;

impl ReaderCore {
    /// Counts one handed-over element of the task as outstanding, because the consumer keeps the element.
    pub(crate) fn keep(&mut self, task: TaskId) {
        if let Some(entry) = self.tasks.get_mut(&task) {
            entry.kept += 1;
        }
    }

    /// Stops counting one kept element of the task as outstanding.
    pub(crate) fn let_go(&mut self, task: TaskId) {
        if let Some(entry) = self.tasks.get_mut(&task) {
            entry.kept = entry.kept.saturating_sub(1);
        }
        self.distribute();
    }

    /// Resizes `Auto`, `elapsed` after the last resize.
    pub(crate) fn resize_auto(&mut self, elapsed: Duration) {
        self.auto.resize(elapsed);
        self.recent.pass(elapsed);
        self.note_recent();
        let is_more = self.auto.bytes() > self.bounds.auto_bytes;
        self.bounds.auto_bytes = self.auto.bytes();
        if is_more {
            self.distribute();
        }
    }

    /// Grants the free credits. Grants none before the consumer has asked for its first element.
    pub(super) fn distribute(&mut self) {
        if !self.is_open || self.failure.is_some() {
            return;
        }
        let standings = self.standings();
        self.undistributed = 0;
        self.distribute_at = match &self.schedule {
            None => (self.bounds.elements(&standings) / 8).max(1),
            // The next turn may be that of any task.
            Some(_) => 1,
        };
        let grants = match &self.schedule {
            None => distribute(&self.bounds, &standings),
            Some(schedule) => {
                let window = schedule.window(self.bounds.elements(&standings));
                distribute_in_turn(&self.bounds, &standings, &window)
            }
        };
        for (task, credits) in grants {
            self.grants += 1;
            let grants = self.grants;
            if let Some(entry) = self.tasks.get_mut(&task) {
                entry.granted_at = grants;
                let grant = entry.half.grant(credits, entry.credit_bytes());
                self.tell(task, grant);
            }
        }
    }

    /// Updates the limit for a shared job with the number of elements handed over within the last second
    /// (D4.8).
    pub(super) fn note_recent(&mut self) {
        if let Some(shared) = &mut self.bounds.shared {
            *shared = self.recent.elements();
        }
    }

    pub(super) fn tell(&mut self, task: TaskId, mut grant: Grant) {
        let is_in_use = self.in_use() == Some(task);
        let Some(entry) = self.tasks.get_mut(&task) else {
            return;
        };
        // D4.6
        grant.waiting = Some(entry.standing().waiting);
        if self.schedule.is_none() {
            entry.used_told = entry.used(is_in_use);
            grant.handed = Some(entry.used_told);
        }
        if let Some(outbox) = self.links.get_mut(&entry.worker).filter(|outbox| outbox.is_up) {
            // The latest grant repeats the contents of earlier grants, so that it can replace a queued grant.
            match outbox.messages.back_mut() {
                Some(ToWorker::Grant(last)) if last.task == task => *last = grant,
                Some(_) | None => outbox.messages.push_back(ToWorker::Grant(grant)),
            }
            outbox.stirred_at = Some(self.now);
            let worker = Arc::clone(&entry.worker);
            self.stir(&worker);
        }
    }

    /// Acknowledges arrivals that no grant has acknowledged yet. Returns false if all arrivals were
    /// acknowledged.
    pub(super) fn acknowledge(&mut self) -> bool {
        let (in_use, is_coordinated) = (self.in_use(), self.schedule.is_some());
        let owed = self.tasks.iter_mut();
        let owed: Vec<_> = owed
            .filter_map(|(task, entry)| {
                let used = if is_coordinated {
                    0
                } else {
                    entry.used(in_use == Some(*task))
                };
                Some((*task, entry.acknowledgement(used)?))
            })
            .collect();
        let is_owed = !owed.is_empty();
        for (task, grant) in owed {
            self.tell(task, grant);
        }
        is_owed
    }

    /// Reports the splits of all tasks that the user is done with. Returns whether there were any.
    pub(super) fn confirm(&mut self) -> bool {
        let tasks = self.tasks.iter();
        let waiting = tasks.filter(|(_, entry)| !entry.unconfirmed.is_empty());
        let tasks: smallvec::SmallVec<[TaskId; 8]> = waiting.map(|(task, _)| *task).collect();
        let mut has_confirmed = false;
        for task in tasks {
            has_confirmed |= self.confirm_of(task);
        }
        has_confirmed
    }

    fn confirm_of(&mut self, task: TaskId) -> bool {
        let is_in_use = self.in_use() == Some(task);
        let Some(entry) = self.tasks.get_mut(&task) else {
            return false;
        };
        let used = entry.used(is_in_use);
        let mut has_confirmed = false;
        for lease in entry.confirm(used) {
            has_confirmed = true;
            self.unreported.note_done(task, lease);
        }
        has_confirmed
    }

    /// Returns the task whose latest element the user may still use.
    pub(super) fn in_use(&self) -> Option<TaskId> {
        self.at_hand
            .filter(|_| self.is_in_use && self.at_hand_settled > 0)
    }

    /// Returns the state of each task, as input of the distribution.
    pub(crate) fn standings(&self) -> Vec<Standing> {
        self.tasks.values().map(Entry::standing).collect()
    }
}
