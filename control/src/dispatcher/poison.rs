//! Poison splits of exactly-once jobs, whose workers die while they read them (C16.7 to C16.9). Decides which
//! splits a death counts for, which tasks read suspects, and when a split is given up.
//!
//! A dead worker cannot name its last split. A split with several deaths is therefore read alone, so that
//! its next death is proven. No death counts when a worker leaves, drains, or begins again in one process.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

use super::action::ClientPush;
use super::failure::{Blame, HeldAtDeath, TaskFailure};
use super::happened::ServiceEventKind;
use super::iteration::FAILURES_MAX;
use super::moment::Moment;
use super::record::{Phase, RemovalRecord, TaskPhase, TaskRecord};
use super::splits::{Run, Suspects};
use super::state::ServiceState;
use super::tables::Tables;
use crate::error::Error;
use crate::exactly_once::PoisonLimits;
use crate::id::{IterationId, TaskId, WorkerId};
use crate::planner::SourcePlan;
use crate::split::{LeaseRange, SplitRange};

/// The time for which a suspect keeps other suspects away from its worker. Most poison splits end their
/// worker within this time, and a reader that pauses must not stop other jobs for longer.
const ALONE: Duration = Duration::from_secs(10);
/// Maximum number of deaths that an iteration remembers, with the ranges of their splits, for messages.
const DEATHS_MAX: usize = 16;
const RANGES_MAX: usize = 32;
/// Maximum number of bytes of a split's payload, such as a file's name, in a message.
const PAYLOAD_BYTES_MAX: usize = 1024;

/// Checks the limits on poison splits (C16.7, C16.9).
pub(super) fn check_poison_limits(limits: PoisonLimits) -> Result<(), Error> {
    let PoisonLimits {
        max_deaths,
        max_skips,
    } = limits;
    let (least, most) = PoisonLimits::DEATHS.into_inner();
    if !PoisonLimits::DEATHS.contains(&max_deaths) {
        return Err(Error::invalid(format!(
            "max_deaths is the number of workers that may die of one split: expected {least} to {most}, found \
             {max_deaths}"
        )));
    }
    if max_skips > PoisonLimits::SKIPS_MAX {
        return Err(Error::invalid(format!(
            "max_skips is the number of splits that a job may skip: expected at most {}, found {max_skips}",
            PoisonLimits::SKIPS_MAX
        )));
    }
    Ok(())
}

impl ServiceState {
    /// Frees the splits of a removed task of an exactly-once job, and counts the death of its worker. Gives
    /// up a split that has reached the limit of deaths (C16.7).
    pub(super) fn free_held(&mut self, removal: &RemovalRecord, runs: &[Run]) {
        let id = removal.iteration;
        let Some(limits) = self.tables.poison_limits(id) else {
            return;
        };
        let blamed = runs.iter().filter(|run| removal.blame.is_on(run));
        let blamed: Vec<SplitRange> = blamed.map(Run::splits).collect();
        self.note_death(id, &removal.worker_address, blamed);
        let counted = runs.iter().map(|run| Run {
            deaths: removal.blame.deaths_of(run, limits),
            ..*run
        });
        let (poison, free): (Vec<Run>, Vec<Run>) = counted.partition(|run| run.deaths >= limits.max_deaths);
        self.tables.books.free(id, &free);
        for run in poison {
            self.give_up(id, run, limits, &removal.worker_address);
        }
    }

    fn note_death(&mut self, id: IterationId, worker_address: &str, mut splits: Vec<SplitRange>) {
        if splits.is_empty() {
            return;
        }
        splits.truncate(RANGES_MAX);
        if let Some(row) = self.tables.iterations.get_mut(&id) {
            let beyond = (row.deaths.len() + 1).saturating_sub(DEATHS_MAX);
            row.deaths.drain(..beyond);
            row.deaths.push(HeldAtDeath {
                worker_address: worker_address.to_owned(),
                splits,
            });
        }
    }

    /// Gives up a split: the job skips it, or fails if it may not skip any further split (C16.9).
    fn give_up(&mut self, id: IterationId, run: Run, limits: PoisonLimits, worker_address: &str) {
        let Some(row) = self.tables.iterations.get_mut(&id) else {
            return;
        };
        let skipped: u64 = row.skipped.iter().map(|range| range.count).sum();
        if skipped + run.count <= u64::from(limits.max_skips) {
            row.skipped.push(run.splits());
            let poison = self.tables.describe_poison(id, &run, limits);
            let text = format!("skips a split: {poison}.");
            self.tell_of_epoch(ServiceEventKind::SplitsSkipped, id, &text);
            let run = Run {
                deaths: 0,
                skipped: true,
                ..run
            };
            return self.tables.books.free(id, &[run]);
        }
        let advice = match limits.max_skips {
            0 => "let the job skip such splits with max_skips".to_owned(),
            skips => {
                format!(
                    "raise max_skips = {skips}, which has been used up (splits skipped so far: {skipped})"
                )
            }
        };
        let on_other_causes = if limits.max_deaths < *PoisonLimits::DEATHS.end() {
            ". If the workers died of other causes, such as preemption, raise max_deaths"
        } else {
            ""
        };
        let poison = self.tables.describe_poison(id, &run, limits);
        let message =
            format!("{poison}. Remove the element that ends its process, or {advice}{on_other_causes}");
        self.fail_iteration(id, &run, message, worker_address);
    }

    /// Ends an iteration whose split is poison, so that no further worker dies of it.
    fn fail_iteration(&mut self, id: IterationId, run: &Run, message: String, worker_address: &str) {
        // The removed task of the dead worker has ended for the reader, so the failure has an id of its own.
        let task = self.tables.meta().next_task;
        self.tables.meta_mut().next_task = TaskId(task.0 + 1);
        let worker_address = worker_address.to_owned();
        if let Some(row) = self.tables.iterations.get_mut(&id) {
            row.failures.truncate(FAILURES_MAX - 1);
            row.failures.push(TaskFailure {
                task,
                worker_address: worker_address.clone(),
                message: message.clone(),
                worker: None,
                element: None,
            });
        }
        self.tell_of_epoch(
            ServiceEventKind::EpochFailed,
            id,
            &format!("has failed: {message}."),
        );
        self.push_clients(
            id,
            &ClientPush::TaskFailed {
                task,
                worker_address: worker_address.clone(),
                message,
                element: None,
            },
        );
        self.lose_splits(id, &[*run], &worker_address);
        self.end_iteration(id, Phase::Finished);
    }
}

impl Tables {
    pub(super) fn poison_limits(&self, id: IterationId) -> Option<PoisonLimits> {
        Some(self.parameters_of(id)?.exactly_once.as_ref()?.poison)
    }

    /// Returns the number of deaths from which on a split of an iteration is a suspect.
    pub(super) fn suspect_deaths(&self, id: IterationId) -> u32 {
        self.poison_limits(id)
            .map_or(u32::MAX, PoisonLimits::suspect_deaths)
    }

    /// Returns the handling of suspects in a lease to a task. `is_idle` says that the task has read all its
    /// splits to the end (C16.8).
    pub(super) fn suspects_for(&self, task: &TaskRecord, is_idle: bool, now: Moment) -> Suspects {
        if !self.is_exactly_once(task.iteration) {
            return Suspects::Unknown;
        }
        let from_deaths = self.suspect_deaths(task.iteration);
        if task.round == 0 {
            return Suspects::PassedOver { from_deaths };
        }
        let is_recent = |other: &TaskId| {
            let since = self.tasks.alone_since.get(other);
            since.is_some_and(|since| now.saturating_sub(since) < ALONE)
        };
        let mut others = self.alone_on(task.worker);
        let is_free = !others.any(|(other, _)| other != task.id && is_recent(&other));
        if is_idle && is_free {
            Suspects::Alone { from_deaths }
        } else {
            Suspects::Awaited { from_deaths }
        }
    }

    /// Notes that a task has read its suspect to the end, because it waits for a further split (C16.8).
    pub(super) fn note_idle(&mut self, id: TaskId) {
        if self.tasks.get(&id).is_some_and(|task| task.alone.is_some()) {
            self.tasks.alone_since.remove(&id);
            if let Some(task) = self.tasks.get_mut(&id) {
                task.alone = None;
            }
        }
    }

    /// Notes the suspect in a lease, which the task reads alone (C16.8).
    pub(super) fn note_suspect(&mut self, id: TaskId, runs: &[Run], now: Moment) {
        let Some(task) = self.tasks.get(&id) else {
            return;
        };
        let from_deaths = self.suspect_deaths(task.iteration);
        let suspect = runs.iter().find(|run| run.deaths >= from_deaths);
        if let Some(lease) = suspect.map(|run| run.first_lease)
            && let Some(task) = self.tasks.get_mut(&id)
        {
            task.alone = Some(lease);
            self.tasks.alone_since.note(id, now);
        }
    }

    /// Returns the part in the death of a worker that the splits of its tasks have. The death counts for the
    /// latest suspect of the worker, or else for all splits (C16.7).
    pub(super) fn blames(&self, worker: WorkerId) -> impl Fn(TaskId) -> Blame + use<> {
        let since = |task: &TaskId| self.tasks.alone_since.get(task);
        let suspect = self.alone_on(worker).max_by_key(|(task, _)| (since(task), *task));
        move |task| match suspect {
            None => Blame::AllSplits,
            Some((of, lease)) if of == task => Blame::Lease(lease),
            Some(_) => Blame::Nothing,
        }
    }

    /// Returns the tasks of a worker that read a suspect, with the suspect's lease.
    fn alone_on(&self, worker: WorkerId) -> impl Iterator<Item = (TaskId, u64)> {
        let tasks = self.tasks.on(worker).into_iter();
        tasks.filter_map(|task| {
            let row = self.tasks.get(&task)?;
            let lease = row.alone.filter(|_| row.phase == TaskPhase::Running)?;
            let holding = self.books.holding(task)?;
            let is_held = !holding.within(LeaseRange::one(lease)).is_empty();
            is_held.then_some((task, lease))
        })
    }

    /// Describes a poison split and the workers that died of it.
    fn describe_poison(&self, id: IterationId, run: &Run, limits: PoisonLimits) -> String {
        let index = run.first_index;
        let once = self
            .parameters_of(id)
            .and_then(|parameters| parameters.exactly_once.as_ref());
        let split = once.map_or(index, |once| once.source_index(index));
        let source = self.books.plan(id).and_then(|plan| plan.sources.first());
        let payload = source.map_or(&[] as &[u8], |source: &SourcePlan| source.payload(index));
        let payload = &payload[..payload.len().min(PAYLOAD_BYTES_MAX)];
        let name = match std::str::from_utf8(payload) {
            Ok(name) if !name.is_empty() && !name.contains(char::is_control) => format!(" ({name})"),
            Ok(_) | Err(_) => String::new(),
        };
        let deaths = self.iterations.get(&id).map(|row| row.deaths.as_slice());
        let held = deaths.unwrap_or_default().iter().filter(|death| {
            let mut splits = death.splits.iter();
            splits.any(|range| range.first <= index && index - range.first < range.count)
        });
        let workers: Vec<&str> = held.map(|death| death.worker_address.as_str()).collect();
        format!(
            "split {split} of source {}{name} ends the process of its worker: {} workers died while they held \
             it ({})",
            run.source,
            limits.max_deaths,
            workers.join(", ")
        )
    }
}

impl Blame {
    /// Returns whether a death counts for a split.
    fn is_on(self, run: &Run) -> bool {
        match self {
            Blame::Nothing => false,
            Blame::AllSplits => !run.skipped,
            Blame::Lease(lease) => run.first_lease == lease && !run.skipped,
        }
    }

    /// Returns the deaths of a split after a death. A death that counts for all splits of a worker makes a
    /// split a suspect at most.
    fn deaths_of(self, run: &Run, limits: PoisonLimits) -> u32 {
        let deaths = run.deaths.saturating_add(u32::from(self.is_on(run)));
        match self {
            Blame::Lease(_) => deaths,
            Blame::Nothing | Blame::AllSplits => deaths.min(limits.suspect_deaths()).max(run.deaths),
        }
    }
}
