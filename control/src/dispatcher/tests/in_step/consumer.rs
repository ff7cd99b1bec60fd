//! A naive consumer, which goes through rounds (C9.3) and records the groups that it hands over.

use std::collections::{BTreeMap, BTreeSet};

use crate::dispatcher::{ClientPush, Snapshot, TaskConcluded, TaskInfo, TaskRemoved};
use crate::id::{ClientId, SessionId, TaskId};

/// The number of groups that a consumer receives before it hands them over.
const AHEAD: u64 = 4;

/// A group that was handed over: its round, its task, and its number within the task.
pub(super) type Handed = (u64, TaskId, u64);

/// A consumer's view of one task.
#[derive(Debug, Default)]
pub(super) struct View {
    pub(super) start: Option<u64>,
    pub(super) received: u64,
    /// The number of groups that every consumer has received, as far as this consumer was told.
    pub(super) released: u64,
    handed: u64,
    /// True if the task was removed.
    pub(super) frozen: bool,
    /// The number of groups to hand over, once the task has ended or the verdict is known.
    end: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) index: u32,
    pub(super) session: SessionId,
    pub(super) id: ClientId,
    pub(super) alive: bool,
    /// True if the dispatcher's messages are lost, because this consumer is reconnecting.
    pub(super) deaf: bool,
    pub(super) tasks: BTreeMap<TaskId, View>,
    pub(super) to_acknowledge: BTreeSet<TaskId>,
    pub(super) to_confirm: BTreeSet<TaskId>,
    /// The tasks whose end this consumer has received and not reported.
    pub(super) to_report: BTreeSet<TaskId>,
    /// True if the consumer was told that its iteration is finished.
    pub(super) finished: bool,
    /// The missing consumers, as this consumer was told.
    pub(super) missing: Option<Vec<u32>>,
    pub(super) handed: Vec<Handed>,
    round: u64,
    /// True if the user has begun this round.
    begun: bool,
    /// The task of the latest group that was handed over in this round.
    cursor: Option<TaskId>,
}

impl View {
    /// Returns whether the task takes part in this round (C9.3, C9.5).
    fn takes_part(&self, round: u64) -> bool {
        self.rounds_from(round) && self.start <= Some(round)
    }

    /// Returns whether the task takes part in this round or a later round.
    fn rounds_from(&self, round: u64) -> bool {
        let begun = |start| round.saturating_sub(start);
        self.start
            .is_some_and(|start| self.end.is_none_or(|end| begun(start) < end))
    }
}

impl Consumer {
    pub(super) fn new(index: u32, session: SessionId, id: ClientId) -> Consumer {
        Consumer {
            index,
            session,
            id,
            alive: true,
            deaf: false,
            tasks: BTreeMap::new(),
            to_acknowledge: BTreeSet::new(),
            to_confirm: BTreeSet::new(),
            to_report: BTreeSet::new(),
            finished: false,
            missing: None,
            handed: Vec::new(),
            round: 0,
            begun: false,
            cursor: None,
        }
    }

    pub(super) fn tell(&mut self, push: ClientPush) {
        match push {
            ClientPush::Snapshot(snapshot) => self.take_stock(snapshot),
            ClientPush::TaskAdded(info) => self.add(info),
            ClientPush::TaskScheduled { task, start_round } => self.schedule(task, start_round),
            ClientPush::TaskRemoved(removed) => self.freeze(&removed),
            ClientPush::TaskConcluded(verdict) => self.conclude(verdict),
            ClientPush::TaskEnded { task } => self.end(task),
            ClientPush::ConsumersLost { consumers } => self.missing = Some(consumers),
            ClientPush::IterationFinished { .. } => self.finish(),
            // The ledger of splits compares the status with what was handed over.
            ClientPush::WorkersLost { .. } | ClientPush::SplitsLost { .. } => {}
            unexpected @ (ClientPush::TaskFailed { .. }
            | ClientPush::Lapsed
            | ClientPush::ShutDown { .. }) => panic!("{unexpected:?}"),
        }
    }

    /// Compares the known tasks with a snapshot (C4.1).
    fn take_stock(&mut self, snapshot: Snapshot) {
        let listed: BTreeSet<TaskId> = snapshot.tasks.iter().map(|info| info.task).collect();
        snapshot.tasks.into_iter().for_each(|info| self.add(info));
        snapshot.removed.iter().for_each(|removed| self.freeze(removed));
        let verdicts = snapshot.concluded.into_iter();
        verdicts.for_each(|verdict| self.conclude(verdict));
        let left = self.tasks.iter();
        let left = left.filter(|(task, view)| !view.frozen && !listed.contains(task));
        for task in left.map(|(task, _)| *task).collect::<Vec<_>>() {
            self.end(task);
        }
        if snapshot.finished {
            self.finish();
        }
    }

    /// Notes the end of the iteration. By then every consumer has received the end of every task.
    fn finish(&mut self) {
        self.finished = true;
        let is_known = |view: &View| view.end.is_some();
        assert!(
            self.tasks.values().all(is_known),
            "an end is unknown: {:?}",
            self.tasks
        );
    }

    /// Receives the end of a task from its worker, after `groups` groups (D7.5).
    pub(super) fn end_after(&mut self, task: TaskId, groups: u64) {
        let view = self
            .tasks
            .get_mut(&task)
            .filter(|view| !view.frozen && view.end.is_none());
        if let Some(view) = view {
            assert_eq!(view.received, groups, "the end precedes a group");
            (view.released, view.end) = (groups, Some(groups));
            self.to_report.insert(task);
        }
    }

    fn add(&mut self, info: TaskInfo) {
        let known = self.tasks.get(&info.task).map(|view| view.start);
        match (known, info.start_round) {
            (None, start) => {
                let view = View {
                    start,
                    ..View::default()
                };
                self.tasks.insert(info.task, view);
            }
            (Some(None), Some(start)) => self.schedule(info.task, start),
            (Some(known), now) => assert_eq!(known, now, "task {} begins again", info.task),
        }
    }

    fn schedule(&mut self, task: TaskId, start: u64) {
        let earliest = self.earliest();
        let view = self.tasks.get_mut(&task).expect("a scheduled task is known");
        if view.end == Some(0) {
            // The task ended without a group, so that no round includes it.
            return;
        }
        assert_eq!(view.start, None, "task {task} is scheduled twice");
        assert!(start >= earliest, "the round was already begun");
        view.start = Some(start);
    }

    fn freeze(&mut self, removed: &TaskRemoved) {
        let view = self.tasks.entry(removed.task).or_default();
        assert!(view.start.is_none_or(|start| start == removed.start_round));
        view.start = Some(removed.start_round);
        view.frozen = true;
        self.to_acknowledge.insert(removed.task);
    }

    fn conclude(&mut self, verdict: TaskConcluded) {
        let view = self
            .tasks
            .get_mut(&verdict.task)
            .expect("a concluded task is known");
        assert!(view.frozen && view.end.is_none_or(|end| end == verdict.groups));
        assert!(
            view.handed <= verdict.groups,
            "the consumer has handed over too many groups"
        );
        assert!(
            view.received >= verdict.groups,
            "the consumer has received too few groups"
        );
        view.released = verdict.groups;
        view.end = Some(verdict.groups);
        self.to_confirm.insert(verdict.task);
    }

    /// Forgets a task that ended before its first round was known (C9.6). A task that this consumer knows to
    /// have ended has no effect.
    fn end(&mut self, task: TaskId) {
        if self.tasks.get(&task).is_some_and(|view| view.end.is_some()) {
            return;
        }
        let view = self.tasks.remove(&task).expect("an ended task is known");
        assert_eq!(view.start, None, "task {task} took part");
    }

    /// Returns the number of groups of a task that were handed over.
    pub(super) fn handed_of(&self, task: TaskId) -> u64 {
        self.tasks.get(&task).map_or(0, |view| view.handed)
    }

    /// Returns the first round that the consumer's user has not begun (C9.4).
    pub(super) fn earliest(&self) -> u64 {
        self.round + u64::from(self.begun)
    }

    pub(super) fn pending(&self) -> Vec<TaskId> {
        let is_pending = |view: &View| view.start.is_none() && view.end.is_none();
        let pending = self.tasks.iter().filter(|(_, view)| is_pending(view));
        pending.map(|(task, _)| *task).collect()
    }

    /// Receives the next group of a task, which has `groups` groups in all. A consumer grants a task nothing
    /// before it knows the task's first round (D7.6).
    pub(super) fn receive(&mut self, task: TaskId, groups: u64) {
        if let Some(view) = self.tasks.get_mut(&task)
            && !view.frozen
            && view.start.is_some()
            && view.received < groups
            && view.received < view.handed + AHEAD
        {
            view.received += 1;
        }
    }

    /// Lets the user ask for more: hands over a group, or continues with the next round. Returns false if
    /// the user has to wait.
    pub(super) fn advance(&mut self) -> bool {
        if !self.begun {
            let is_more = self.tasks.values().any(|view| view.rounds_from(self.round));
            if !is_more || !self.pending().is_empty() {
                return false;
            }
            self.begun = true;
        }
        let (round, cursor) = (self.round, self.cursor);
        let mut rest = self.tasks.iter_mut().filter(|(task, _)| Some(**task) > cursor);
        let Some((task, view)) = rest.find(|(_, view)| view.takes_part(round)) else {
            (self.round, self.begun, self.cursor) = (round + 1, false, None);
            return true;
        };
        if view.handed == view.released {
            return false;
        }
        let group = view.handed;
        assert_eq!(view.start.map(|start| start + group), Some(round), "out of step");
        view.handed += 1;
        self.handed.push((round, *task, group));
        self.cursor = Some(*task);
        true
    }
}
