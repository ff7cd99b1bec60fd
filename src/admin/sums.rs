//! The sums of each running job, which metrics and the history show. Pure.

use std::collections::BTreeMap;

use millstream_control::{IterationStatus, JobId, Phase, Status};

/// Maximum number of jobs with sums of their own: the running jobs with the highest ids.
pub(super) const JOBS_MAX: usize = 100;

/// The sums of one job, over its running iterations.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct JobSums {
    pub(super) produced_per_s: f64,
    pub(super) read_per_s: f64,
    pub(super) clients: usize,
    /// The largest share of a trainer's time in which it waits.
    pub(super) waiting: Option<f64>,
    pub(super) leased: u64,
    pub(super) remaining: u64,
    pub(super) done: u64,
    pub(super) lost: u64,
}

/// Returns the sums of the running jobs with the highest ids, with the highest id first.
pub(super) fn running_jobs(status: &Status) -> Vec<(JobId, JobSums)> {
    let mut sums: BTreeMap<JobId, JobSums> = BTreeMap::new();
    for row in status.iterations.iter().filter(|row| row.phase == Phase::Running) {
        sums.entry(row.job).or_default().add(row);
    }
    sums.into_iter().rev().take(JOBS_MAX).collect()
}

impl JobSums {
    fn add(&mut self, row: &IterationStatus) {
        self.produced_per_s += row.tasks.iter().map(|task| task.elements_per_s).sum::<f64>();
        self.read_per_s += row
            .clients
            .iter()
            .map(|client| client.elements_per_s)
            .sum::<f64>();
        self.clients += row.clients.len();
        let waits = row.clients.iter().filter_map(|client| client.waiting);
        self.waiting = waits.chain(self.waiting).max_by(f64::total_cmp);
        self.leased += row.splits_leased;
        self.remaining += row.sources.iter().map(|source| source.remaining).sum::<u64>();
        self.done += row.splits_done;
        self.lost += row.splits_lost;
    }
}
