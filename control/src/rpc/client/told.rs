//! The pushes that a client has received. A snapshot is compared with them, so that it repeats nothing and
//! omits nothing.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;

use crate::dispatcher::{ClientPush, Snapshot, TaskInfo, TaskRemoved};
use crate::id::TaskId;

/// The pushes that one client has received. The size is that of the latest snapshot and the pushes after
/// it.
#[derive(Debug, Default)]
pub struct Told {
    tasks: BTreeSet<TaskId>,
    /// The known tasks whose first round is not known yet.
    pending: BTreeSet<TaskId>,
    removed: BTreeSet<TaskId>,
    concluded: BTreeSet<TaskId>,
    failed: BTreeSet<TaskId>,
    splits_lost: u64,
    finished: bool,
}

impl Told {
    /// Returns the new parts of a push, in order. A snapshot becomes the individual pushes that it
    /// replaces.
    pub fn news(&mut self, push: ClientPush) -> Vec<ClientPush> {
        let is_new = match &push {
            ClientPush::Snapshot(_) => true,
            ClientPush::TaskAdded(task) => return self.news_of_task(task),
            ClientPush::TaskScheduled { task, .. } => self.pending.remove(task),
            ClientPush::TaskConcluded(concluded) => self.concluded.insert(concluded.task),
            ClientPush::TaskRemoved(removed) => return self.news_of_removal(removed),
            ClientPush::TaskFailed { task, .. } => self.failed.insert(*task),
            ClientPush::TaskEnded { task } => {
                self.pending.remove(task);
                self.tasks.remove(task)
            }
            ClientPush::SplitsLost { splits, .. } => {
                self.splits_lost += splits.iter().map(|range| range.count).sum::<u64>();
                true
            }
            // After a gap, the next snapshot names the lost splits, and reports the end after the loss.
            ClientPush::IterationFinished { splits_lost } if *splits_lost > self.splits_lost => false,
            ClientPush::IterationFinished { .. } => !std::mem::replace(&mut self.finished, true),
            ClientPush::WorkersLost { .. }
            | ClientPush::ConsumersLost { .. }
            | ClientPush::Lapsed
            | ClientPush::ShutDown { .. } => true,
        };
        if let ClientPush::Snapshot(snapshot) = push {
            return self.news_of(snapshot);
        }
        if is_new { vec![push] } else { Vec::new() }
    }

    /// Returns a task once. A task without a first round is returned again with each snapshot, because the
    /// client's answer may have been lost.
    fn news_of_task(&mut self, task: &TaskInfo) -> Vec<ClientPush> {
        let is_known = !self.tasks.insert(task.task);
        match task.start_round {
            None => {
                self.pending.insert(task.task);
                vec![ClientPush::TaskAdded(task.clone())]
            }
            Some(start_round) if is_known => {
                let was_pending = self.pending.remove(&task.task);
                let task = task.task;
                let scheduled = was_pending.then_some(ClientPush::TaskScheduled { task, start_round });
                scheduled.into_iter().collect()
            }
            Some(_) => vec![ClientPush::TaskAdded(task.clone())],
        }
    }

    /// Returns the removal of a task. If the client does not know the task's first round yet, the round is
    /// returned first.
    fn news_of_removal(&mut self, removed: &TaskRemoved) -> Vec<ClientPush> {
        self.tasks.remove(&removed.task);
        let mut news = Vec::new();
        if self.pending.remove(&removed.task) {
            news.push(ClientPush::TaskScheduled {
                task: removed.task,
                start_round: removed.start_round,
            });
        }
        if self.removed.insert(removed.task) {
            news.push(ClientPush::TaskRemoved(removed.clone()));
        }
        news
    }

    /// Returns the pushes that a snapshot replaces. Failures precede ends, so that an end is not mistaken
    /// for the task's success.
    fn news_of(&mut self, snapshot: Snapshot) -> Vec<ClientPush> {
        let listed: BTreeSet<TaskId> = snapshot.tasks.iter().map(|task| task.task).collect();
        let concluded: BTreeSet<TaskId> = snapshot
            .concluded
            .iter()
            .map(|concluded| concluded.task)
            .collect();
        let removed: BTreeSet<TaskId> = snapshot.removed.iter().map(|removed| removed.task).collect();
        let mut pushes: Vec<ClientPush> = snapshot.tasks.into_iter().map(ClientPush::TaskAdded).collect();
        pushes.extend(snapshot.removed.into_iter().map(ClientPush::TaskRemoved));
        pushes.extend(snapshot.concluded.into_iter().map(ClientPush::TaskConcluded));
        pushes.extend(snapshot.failed.into_iter().map(|failure| ClientPush::TaskFailed {
            task: failure.task,
            worker_address: failure.worker_address,
            message: failure.message,
            element: failure.element,
        }));
        let ended = self
            .tasks
            .difference(&listed)
            .filter(|task| !removed.contains(task));
        pushes.extend(ended.map(|task| ClientPush::TaskEnded { task: *task }));
        let mut news: Vec<ClientPush> = pushes.into_iter().flat_map(|push| self.news(push)).collect();
        self.removed = removed;
        self.concluded = concluded;
        if snapshot.splits_lost > self.splits_lost {
            self.splits_lost = snapshot.splits_lost;
            // It is unknown which of the lost splits were reported before, so all are named again.
            news.push(ClientPush::SplitsLost {
                splits: snapshot.lost,
                worker_address: String::new(),
            });
        }
        if snapshot.finished {
            let splits_lost = snapshot.splits_lost;
            news.extend(self.news(ClientPush::IterationFinished { splits_lost }));
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatcher::{RemovalReason, TaskConcluded, TaskFailure};
    use crate::id::WorkerId;
    use crate::whereabouts::Whereabouts;

    /// Tests that a snapshot reports everything that the client missed, once (C4.1).
    #[test]
    fn a_snapshot_tells_missed_things_once() {
        let mut told = Told::default();
        for task in [1, 2, 3, 4] {
            assert_eq!(told.news(added(task)), [added(task)]);
        }
        assert_eq!(told.news(removed(4)), [removed(4)]);
        // Task 1 settled, task 2 was removed, and the removal of task 4 was acknowledged. Task 3 failed and
        // is still served. Task 5 is new.
        let snapshot = Snapshot {
            tasks: vec![info(3), info(5)],
            removed: vec![removal(2)],
            failed: vec![failure(3)],
            ..Snapshot::default()
        };
        let ended = |task| ClientPush::TaskEnded { task: TaskId(task) };
        assert_eq!(
            told.news(ClientPush::Snapshot(snapshot.clone())),
            [added(5), removed(2), failed(3), ended(1)]
        );
        assert_eq!(told.news(ClientPush::Snapshot(snapshot.clone())), []);
        let finished = Snapshot {
            finished: true,
            failed: snapshot.failed,
            ..Snapshot::default()
        };
        assert_eq!(
            told.news(ClientPush::Snapshot(finished)),
            [
                ended(3),
                ended(5),
                ClientPush::IterationFinished { splits_lost: 0 }
            ]
        );
    }

    /// Tests that a late task is returned again until its first round is known (C4.1).
    #[test]
    fn a_late_task_is_announced_until_started() {
        let mut told = Told::default();
        let pending = TaskInfo {
            start_round: None,
            ..info(1)
        };
        let late = ClientPush::TaskAdded(pending.clone());
        assert_eq!(told.news(late.clone()), std::slice::from_ref(&late));
        let snapshot = |task| Snapshot {
            tasks: vec![task],
            ..Snapshot::default()
        };
        assert_eq!(told.news(ClientPush::Snapshot(snapshot(pending))), [late]);
        let settled = TaskInfo {
            start_round: Some(7),
            ..info(1)
        };
        let scheduled = ClientPush::TaskScheduled {
            task: TaskId(1),
            start_round: 7,
        };
        let settled = ClientPush::Snapshot(snapshot(settled));
        assert_eq!(told.news(settled.clone()), std::slice::from_ref(&scheduled));
        assert_eq!(told.news(settled), []);
        assert_eq!(told.news(scheduled), []);
        assert_eq!(told.news(removed(1)), [removed(1)]);
        told.news(ClientPush::TaskAdded(TaskInfo {
            start_round: None,
            ..info(2)
        }));
        let missed = ClientPush::TaskScheduled {
            task: TaskId(2),
            start_round: 9,
        };
        assert_eq!(told.news(removed(2)), [missed, removed(2)]);
        let concluded = TaskConcluded {
            task: TaskId(1),
            groups: 3,
        };
        let verdict = ClientPush::TaskConcluded(concluded);
        let snapshot = ClientPush::Snapshot(Snapshot {
            concluded: vec![concluded],
            ..Snapshot::default()
        });
        assert_eq!(told.news(snapshot.clone()), std::slice::from_ref(&verdict));
        assert_eq!(told.news(snapshot), []);
        assert_eq!(told.news(verdict), []);
    }

    /// Tests that a loss is reported before the end, even if the end arrives before the snapshot (C4.1).
    #[test]
    fn losses_are_told_before_the_end() {
        let mut told = Told::default();
        let finished = ClientPush::IterationFinished { splits_lost: 2 };
        assert_eq!(told.news(finished.clone()), []);
        let snapshot = Snapshot {
            finished: true,
            splits_lost: 2,
            ..Snapshot::default()
        };
        let news = told.news(ClientPush::Snapshot(snapshot));
        assert!(matches!(
            news[..],
            [
                ClientPush::SplitsLost { .. },
                ClientPush::IterationFinished { .. }
            ]
        ));
        assert_eq!(told.news(finished), []);
    }

    fn failure(task: u64) -> TaskFailure {
        TaskFailure {
            task: TaskId(task),
            worker_address: "one:1".to_owned(),
            message: "corrupt".to_owned(),
            worker: None,
            element: None,
        }
    }

    fn failed(task: u64) -> ClientPush {
        let failure = failure(task);
        ClientPush::TaskFailed {
            task: failure.task,
            worker_address: failure.worker_address,
            message: failure.message,
            element: failure.element,
        }
    }

    fn added(task: u64) -> ClientPush {
        ClientPush::TaskAdded(info(task))
    }

    fn info(task: u64) -> TaskInfo {
        TaskInfo {
            task: TaskId(task),
            worker_address: "one:1".to_owned(),
            worker: WorkerId(1),
            worker_tags: vec![],
            ticket: vec![],
            start_round: Some(0),
            whereabouts: Whereabouts::default(),
            local_socket: None,
        }
    }

    fn removed(task: u64) -> ClientPush {
        ClientPush::TaskRemoved(removal(task))
    }

    fn removal(task: u64) -> TaskRemoved {
        TaskRemoved {
            task: TaskId(task),
            worker_address: "one:1".to_owned(),
            reason: RemovalReason::WorkerSilent,
            start_round: 9,
        }
    }
}
