//! The splits of a coordinated read under `dynamic`: leases, reports of consumers, and the ledger of what was
//! handed over.

use std::collections::BTreeSet;
use std::ops::Range;

use millstream_link::Role;

use super::world::World;
use crate::dispatcher::{Reply, Request};
use crate::id::TaskId;
use crate::split::LeaseRange;

/// The data that the job reads.
#[derive(Clone, Copy, Debug)]
pub(super) enum Data {
    /// Tasks without an end.
    Endless,
    /// Tasks of this number of groups, each of which reads the whole dataset.
    Groups(u64),
    /// This number of splits, each of which has one group and goes to one task.
    Splits(u64),
}

impl World {
    /// Returns the number of groups that a task has produced.
    pub(super) fn groups_of(&self, task: TaskId) -> u64 {
        match self.data {
            Data::Endless => u64::MAX,
            Data::Groups(groups) => groups,
            Data::Splits(_) => self
                .produced
                .get(&task)
                .map_or(0, |produced| produced.len() as u64),
        }
    }

    /// Lets a worker lease splits for its tasks, and produce them. A draining worker takes no splits.
    pub(super) fn produce(&mut self, pick: usize) {
        let has_splits = matches!(self.data, Data::Splits(_));
        let Some(worker) = self.worker(pick).filter(|worker| has_splits && !worker.cut_off) else {
            return;
        };
        let (session, drains) = (worker.session, worker.drains);
        let running = worker.tasks.iter().filter(|(_, served)| !served.is_at_end);
        let running: Vec<TaskId> = running.map(|(task, _)| *task).collect();
        for task in running {
            let mut is_at_end = drains;
            if !drains {
                let lease = Request::LeaseSplits {
                    task,
                    source: 0,
                    repetition: 0,
                    want: 1 + pick as u32 % 3,
                    pace: None,
                    is_idle: false,
                };
                let Ok(Reply::Splits { runs, end, .. }) = self.ask(session, Role::Worker, lease) else {
                    continue;
                };
                let splits = runs.iter().flat_map(|run| {
                    (0..run.count).map(|place| (run.first_lease + place, run.first_index + place))
                });
                self.produced.entry(task).or_default().extend(splits);
                is_at_end = end && runs.is_empty();
            }
            let worker = self.workers.iter_mut().find(|worker| worker.session == session);
            if let Some(served) = worker.and_then(|worker| worker.tasks.get_mut(&task)) {
                served.is_at_end |= is_at_end;
            }
        }
    }

    /// Lets a worker drain, if another worker takes the free splits.
    pub(super) fn drain(&mut self, pick: usize) {
        let takes_tasks = self
            .workers
            .iter()
            .filter(|worker| worker.alive && !worker.drains);
        if !matches!(self.data, Data::Splits(_)) || takes_tasks.count() < 2 {
            return;
        }
        if let Some(worker) = self
            .worker(pick)
            .filter(|worker| !worker.cut_off && !worker.drains)
        {
            worker.drains = true;
            let session = worker.session;
            self.ask(session, Role::Worker, Request::DrainWorker).unwrap();
        }
    }

    /// Lets a consumer report the splits whose groups are released (C9.9).
    pub(super) fn report_splits(&mut self, pick: usize) {
        let Some(consumer) = self.consumer(pick) else {
            return;
        };
        let (session, client) = (consumer.session, consumer.id);
        let released = consumer.tasks.iter().map(|(task, view)| (*task, view.released));
        for (task, released) in released.collect::<Vec<_>>() {
            let groups = self
                .produced
                .get(&task)
                .map_or(0, |produced| produced.len() as u64);
            let fresh = (0..released.min(groups)).filter(|group| self.reported.insert((task, *group)));
            let fresh: Vec<u64> = fresh.collect();
            let leases = fresh
                .iter()
                .flat_map(|group| self.leases_of(task, *group..group + 1));
            let leases: Vec<LeaseRange> = leases.collect();
            if !leases.is_empty() {
                let done = Request::SplitsDone { client, task, leases };
                self.ask(session, Role::Read, done).unwrap();
            }
        }
    }

    /// Returns the leases of these groups of a task.
    pub(super) fn leases_of(&self, task: TaskId, groups: Range<u64>) -> Vec<LeaseRange> {
        let produced = self.produced.get(&task).map_or(&[][..], Vec::as_slice);
        let leases = groups.filter_map(|group| produced.get(group as usize));
        leases.map(|(lease, _)| LeaseRange::one(*lease)).collect()
    }

    /// Checks that no split was handed over twice, and that every other split is lost with a report.
    pub(super) fn check_splits(&self, splits: u64) {
        let handed = self.consumers[0].handed.iter();
        let handed: Vec<u64> = handed
            .map(|(_, task, group)| self.produced[task][*group as usize].1)
            .collect();
        let once: BTreeSet<u64> = handed.iter().copied().collect();
        assert_eq!(
            once.len(),
            handed.len(),
            "a split was handed over twice: {handed:?}"
        );
        let lost = &self.rig.machine.status().iterations[0].lost;
        let is_lost = |split: u64| {
            lost.iter()
                .any(|range| (range.first..range.first + range.count).contains(&split))
        };
        for split in (0..splits).filter(|split| !once.contains(split)) {
            assert!(is_lost(split), "split {split} is missing without a report");
        }
    }
}
