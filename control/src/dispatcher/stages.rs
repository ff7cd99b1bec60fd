//! The stages of the pipelines of running iterations, summed over the tasks, for people.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;

use super::stage_reports::STAGED_ITERATIONS_MAX;
use super::state::ServiceState;
use crate::id::IterationId;
use crate::stage::StagePace;

/// The recent work of one stage of an iteration's pipeline, over all tasks that have reported it lately.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageStatus {
    /// The name of the operation with its parameters.
    pub label: String,
    /// The number of operations whose bodies contain the stage.
    pub depth: u32,
    /// The elements that the stage yields in a second.
    pub elements_per_s: f64,
    /// The number of threads that the stage keeps busy.
    pub busy: f64,
    /// The mean share of the time in which the next stage waits for this stage, from 0 to 1.
    pub waited: f64,
    /// The maximum number of threads that the stage uses.
    pub threads: u64,
    /// The number of workers that have reported the stage lately. Workers that wait for their readers report
    /// nothing.
    pub workers: u64,
}

/// The stages of the pipeline of each iteration, with the output first.
pub type Stages = BTreeMap<IterationId, Vec<StageStatus>>;

/// Returns the stages of the running iterations with the highest ids (C11.6).
pub(super) fn stages(state: &ServiceState) -> Stages {
    let running = state.tables.iterations.running();
    let latest = running.into_iter().rev().take(STAGED_ITERATIONS_MAX);
    let summed = latest.map(|id| (id, stages_of(state, id)));
    summed.filter(|(_, stages)| !stages.is_empty()).collect()
}

fn stages_of(state: &ServiceState, id: IterationId) -> Vec<StageStatus> {
    let mut sums: Vec<StageStatus> = Vec::new();
    for task in state.tables.tasks.running_of(id) {
        let Some(report) = state.paces.stages_of(id, task) else {
            continue;
        };
        if sums.is_empty() {
            sums = report.stages.iter().map(StageStatus::named).collect();
        }
        // The stages of a task that waits for its readers have names, and no rates.
        let reported = report.stages.iter().filter(|_| report.is_fresh(state.now));
        // A worker of another version may run the pipeline in other stages.
        for (sum, stage) in sums.iter_mut().zip(reported) {
            if sum.label == stage.label {
                sum.add(stage);
            }
        }
    }
    for sum in &mut sums {
        sum.waited /= (sum.workers as f64).max(1.0);
    }
    sums
}

impl StageStatus {
    fn named(stage: &StagePace) -> StageStatus {
        StageStatus {
            label: stage.label.clone(),
            depth: stage.depth,
            ..StageStatus::default()
        }
    }

    fn add(&mut self, stage: &StagePace) {
        self.elements_per_s += stage.elements_per_1000_s as f64 / 1e3;
        self.busy += f64::from(stage.busy_permille) / 1e3;
        self.waited += f64::from(stage.waited_permille) / 1e3;
        self.threads += u64::from(stage.threads);
        self.workers += 1;
    }
}
