//! Tasks: one worker's share of an iteration, from its start until its readers have everything.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::action::{ClientPush, Reply, StopReason, TaskDef, WorkerPush};
use super::config::ERROR_BYTES_MAX;
use super::coordination::END_OF_DATA;
use super::failure::TaskFailure;
use super::machine::Dispatcher;
use super::outcome::Outcome;
use super::record::{Answer, Phase, TaskPhase, TaskRecord};
use super::splits::{Holding, Ledger};
use crate::error::Error;
use crate::id::{IterationId, SessionId, TaskId, WorkerId};
use crate::job::Policy;
use crate::planner::SplitPlan;
use crate::split::{LeaseRange, SplitPace};

/// Failures that an iteration remembers. With at most 16 KiB each they fit a push.
const FAILURES_MAX: usize = 16;

/// How a task came to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    /// It read its splits to the end.
    pub(super) exhausted: bool,
    /// Its worker is being drained, and it read only what it had begun.
    pub(super) cut_short: bool,
}

/// Returns how many of the available splits a task gets: so many that what it then has not started is at most its part, by its
/// pace, of those that stay free (C5.1). So it never holds more than its share of what is left.
fn fair_by_pace(available: u64, pace: SplitPace, all: u64) -> u64 {
    let (available, own) = (u128::from(available), u128::from(pace.per_1000_s));
    let all = u128::from(all).max(own).max(1);
    let share = (available * own).saturating_sub(u128::from(pace.unstarted) * all) / (all + own);
    u64::try_from(share).unwrap_or(u64::MAX).max(1)
}

impl Dispatcher {
    /// Notes how fast a task is. Returns how fast all running tasks of the iteration are together; of which nothing is known counts as
    /// fast as this one.
    fn note_split_pace(&mut self, iteration: IterationId, task: TaskId, pace: SplitPace) -> u64 {
        self.paces.note_splits(task, pace);
        let runs = |task: &TaskId| {
            let row = self.tables.tasks.get(task);
            row.is_some_and(|row| row.phase == TaskPhase::Running)
        };
        let paces = self.tables.tasks_of(iteration).into_iter().filter(runs);
        let of = |task: TaskId| self.paces.splits_of(task).unwrap_or(pace.per_1000_s);
        paces.map(of).fold(0, u64::saturating_add)
    }

    /// Whether every running task of an iteration has said how fast it is.
    fn all_are_paced(&self, iteration: IterationId) -> bool {
        let tasks = self.tables.tasks_of(iteration);
        let mut rows = tasks.iter().filter_map(|task| self.tables.tasks.get(task));
        rows.all(|row| row.phase != TaskPhase::Running || self.paces.splits_of(row.id).is_some())
    }

    pub(super) fn create_task(&mut self, iteration: IterationId, worker: WorkerId, start_round: Option<u64>) {
        // C10.1
        if !self.is_wanted(iteration, worker) || self.tables.is_draining(worker) {
            return;
        }
        let id = self.tables.meta().next_task;
        self.tables.meta_mut().next_task = TaskId(id.0 + 1);
        let task = TaskRecord {
            id,
            iteration,
            worker,
            phase: TaskPhase::Running,
            drained: BTreeSet::new(),
            stopped_early: false,
            round: self.tables.iterations.get(&iteration).map_or(0, |row| row.round),
            start_round,
            ready: BTreeMap::new(),
            cut_short: false,
            catches_up: false,
            releasing: BTreeSet::new(),
            delivered: false,
            stopped: false,
        };
        self.tables.insert_task(task.clone());
        if self.is_dynamic(iteration) {
            self.tables.holdings.insert(id, Holding::default());
        }
        self.push_worker(worker, WorkerPush::Start { task: id });
        for client in self.readers(&task) {
            self.clocks.stranded.remove(&client);
            if let Some(info) = self.task_info(client, &task) {
                self.push_client(client, ClientPush::TaskAdded(info));
            }
        }
    }

    pub(super) fn describe_task(&self, session: SessionId, task: TaskId) -> Result<Outcome, Error> {
        let task = self.own_task(session, task)?;
        let unknown = || Error::internal(format!("task {} has no iteration, job or dataset", task.id));
        let iteration = self.tables.iterations.get(&task.iteration).ok_or_else(unknown)?;
        let job = self.tables.jobs.get(&iteration.job).ok_or_else(unknown)?;
        let dataset = self
            .tables
            .datasets
            .get(&job.parameters.dataset)
            .ok_or_else(unknown)?;
        let worker = self.tables.workers.get(&task.worker).ok_or_else(unknown)?;
        let plan = self.tables.plans.get(&task.iteration).ok_or_else(unknown)?;
        let plan = if job.parameters.policy == Policy::Dynamic {
            Arc::new(SplitPlan {
                sources: Vec::new(),
                seed: plan.seed,
            })
        } else {
            Arc::clone(plan)
        };
        let def = TaskDef {
            task: task.id,
            iteration: iteration.id,
            job: job.id,
            repetition: iteration.repetition,
            policy: job.parameters.policy,
            worker_index: worker.index,
            worker_count: iteration.shares,
            num_consumers: job.parameters.num_consumers,
            cross_trainer_cache: job.parameters.cross_trainer_cache,
            dataset: Arc::clone(dataset),
            plan,
        };
        Ok(Outcome::Reply(Reply::Task(Box::new(def))))
    }

    /// C5.1 to C5.4.
    pub(super) fn lease_splits(
        &mut self,
        session: SessionId,
        task: TaskId,
        (source, repetition): (u32, u64),
        want: u32,
        pace: Option<SplitPace>,
    ) -> Result<Outcome, Error> {
        let iteration = self.own_task(session, task)?.iteration;
        self.check_lease(task, want)?;
        let (dealing, most) = self.dealing_to(task);
        let tasks = self.tables.index.tasks_of.get(&iteration);
        let sharers = tasks.map_or(1, |tasks| tasks.len() as u64).max(1);
        let all_paces = pace.map(|pace| self.note_split_pace(iteration, task, pace));
        // Seconds that are dealt out to others would keep a task idle that has not begun.
        let is_paced = self.all_are_paced(iteration);
        let (Some(ledger), Some(holding)) = (
            self.tables.ledgers.get_mut(&iteration),
            self.tables.holdings.get_mut(&task),
        ) else {
            return Err(Error::precondition(format!(
                "task {task} reads everything itself: only tasks under `dynamic` are given splits"
            )));
        };
        check_source(ledger, task, source, repetition)?;
        // C5.2
        let room = self.config.held_splits_max.saturating_sub(holding.split_count());
        if room == 0 {
            let current = ledger.current(source);
            return Ok(Outcome::Answer(Answer::Splits {
                iteration,
                runs: Vec::new(),
                end: false,
                current,
                more: false,
            }));
        }
        let batch = u64::from(holding.next_batch(self.config.lease_batch_max));
        let available = ledger.available(source, repetition, dealing);
        let fair = match pace.zip(all_paces) {
            Some((pace, all)) => {
                fair_by_pace(available, pace, all).min(u64::from(self.config.lease_batch_max))
            }
            None => (available / (2 * sharers)).max(1).min(batch),
        };
        let part = fair.min(u64::from(want)).min(room);
        let limit = part.min(most);
        let runs = ledger.lease(source, repetition, limit, dealing);
        for run in &runs {
            holding.insert(*run);
        }
        let current = ledger.current(source);
        Ok(Outcome::Answer(Answer::Splits {
            iteration,
            end: runs.is_empty(),
            runs,
            current,
            more: is_paced && part >= most,
        }))
    }

    /// Refuses splits to a task that has finished, and a request for none.
    fn check_lease(&self, task: TaskId, want: u32) -> Result<(), Error> {
        if self
            .tables
            .tasks
            .get(&task)
            .is_some_and(|task| task.phase != TaskPhase::Running)
        {
            return Err(Error::precondition(format!(
                "task {task} has finished and gets no more splits"
            )));
        }
        if want == 0 {
            return Err(Error::invalid("a task asks for at least one split"));
        }
        Ok(())
    }

    /// C5.5.
    pub(super) fn return_splits(
        &mut self,
        session: SessionId,
        task: TaskId,
        leases: &[LeaseRange],
    ) -> Result<(), Error> {
        let iteration = self.own_task(session, task)?.iteration;
        let (Some(ledger), Some(holding)) = (
            self.tables.ledgers.get_mut(&iteration),
            self.tables.holdings.get_mut(&task),
        ) else {
            return Ok(());
        };
        for run in leases.iter().flat_map(|range| holding.take(*range)) {
            ledger.take_back(&run, task);
        }
        self.review_iteration(iteration);
        Ok(())
    }

    pub(super) fn finish_task(
        &mut self,
        session: SessionId,
        id: TaskId,
        delivered: bool,
        how: Ended,
    ) -> Result<(), Error> {
        match self.own_task(session, id).map(|task| task.iteration) {
            // C9.7
            Ok(iteration) if self.is_coordinated(iteration) => {
                return self.fail_task(session, id, END_OF_DATA.to_owned());
            }
            Ok(_) => {}
            // It ended with its iteration: the report came late, or twice.
            Err(_) if !self.tables.tasks.contains(&id) => return Ok(()),
            Err(error) => return Err(error),
        }
        if let Some(task) = self.tables.tasks.get_mut(&id)
            && task.phase == TaskPhase::Running
        {
            task.phase = TaskPhase::Finished;
            task.cut_short = how.cut_short;
            task.stopped_early = !how.exhausted && !how.cut_short;
        }
        if delivered && let Some(task) = self.tables.tasks.get_mut(&id) {
            task.delivered = true;
        }
        self.review_task(id);
        Ok(())
    }

    pub(super) fn fail_task(
        &mut self,
        session: SessionId,
        id: TaskId,
        mut message: String,
    ) -> Result<(), Error> {
        let task = match self.own_task(session, id) {
            Ok(task) => task.clone(),
            Err(_) if !self.tables.tasks.contains(&id) => return Ok(()),
            Err(error) => return Err(error),
        };
        if task.phase != TaskPhase::Running {
            return Ok(());
        }
        let cut = message.floor_char_boundary(ERROR_BYTES_MAX);
        message.truncate(cut);
        if let Some(task) = self.tables.tasks.get_mut(&id) {
            task.phase = TaskPhase::Failed(message.clone());
        }
        let worker_address = self.address_of(task.worker);
        if let Some(row) = self.tables.iterations.get_mut(&task.iteration)
            && row.failures.len() < FAILURES_MAX
        {
            row.failures.push(TaskFailure {
                task: id,
                worker_address: worker_address.clone(),
                message: message.clone(),
                worker: Some(task.worker),
            });
        }
        let push = ClientPush::TaskFailed {
            task: id,
            worker_address: worker_address.clone(),
            message,
        };
        for client in self.readers(&task) {
            self.push_client(client, push.clone());
        }
        // C6.6: another worker would fail at the same element.
        let held = self
            .tables
            .holdings
            .get_mut(&id)
            .map(Holding::take_all)
            .unwrap_or_default();
        self.lose_splits(task.iteration, &held, &worker_address);
        self.review_iteration(task.iteration);
        Ok(())
    }

    /// C6.6: the worker of a failed task is gone, and will not tell its readers any more.
    pub(super) fn end_failed_task(&mut self, id: TaskId) {
        let Some(task) = self.tables.tasks.get(&id) else {
            return;
        };
        let iteration = task.iteration;
        for client in self.readers(task) {
            self.push_client(client, ClientPush::TaskEnded { task: id });
        }
        self.review_iteration(iteration);
    }

    /// Whether readers may still be told something of a task by its worker.
    pub(super) fn is_served(&self, task: &TaskRecord) -> bool {
        match task.phase {
            TaskPhase::Running | TaskPhase::Finished => !task.stopped,
            TaskPhase::Settled => false,
            TaskPhase::Failed(_) => {
                let worker = self.tables.workers.get(&task.worker);
                worker.is_some_and(|worker| worker.dead.is_none())
            }
        }
    }

    /// Looks whether every reader has everything of a finished task (C3.3).
    pub(super) fn review_task(&mut self, id: TaskId) {
        let Some(task) = self.tables.tasks.get(&id) else {
            return;
        };
        if task.phase != TaskPhase::Settled && self.hand_over(id) {
            return;
        }
        let Some(task) = self.tables.tasks.get(&id) else {
            return;
        };
        if task.phase == TaskPhase::Finished {
            let clients = self.readers(task);
            let have_all = clients.iter().all(|client| task.drained.contains(client));
            // Without readers, what it has buffered waits for the next one. A reader says itself what its user is not done with.
            let is_known = self.tables.holdings.get(&id).is_none_or(Holding::is_empty);
            let is_over = match task.delivered {
                true => have_all || is_known,
                false => have_all && !clients.is_empty(),
            };
            // C6.7
            if is_over && task.releasing.is_empty() {
                return self.settle_task(id);
            }
        }
        let iteration = task.iteration;
        self.review_iteration(iteration);
    }

    pub(super) fn address_of(&self, worker: WorkerId) -> String {
        let worker = self.tables.workers.get(&worker);
        worker.map_or_else(|| "an unknown worker".to_owned(), |worker| worker.address.clone())
    }

    /// The task, if it exists and is this living worker's.
    pub(super) fn own_task(&self, session: SessionId, task: TaskId) -> Result<&TaskRecord, Error> {
        let worker = self.living_worker(session)?;
        let row = self.tables.tasks.get(&task).filter(|row| row.worker == worker);
        row.filter(|row| self.tables.index.running.contains(&row.iteration))
            .ok_or_else(|| Error::aborted(format!("task {task} is not this worker's, or no longer: stop it")))
    }

    fn settle_task(&mut self, id: TaskId) {
        let Some(task) = self.tables.tasks.get_mut(&id) else {
            return;
        };
        task.phase = TaskPhase::Settled;
        let drained = std::mem::take(&mut task.drained);
        let task = task.clone();
        let (iteration, worker, cut_short) = (task.iteration, task.worker, task.cut_short);
        let held = self
            .tables
            .holdings
            .remove(&id)
            .map(|mut holding| holding.take_all());
        if let Some(ledger) = self.tables.ledgers.get_mut(&iteration) {
            // C5.5: a task that stopped early has given back what it had not started.
            for run in held.iter().flatten() {
                ledger.done(run);
            }
        }
        debug_assert!(
            self.tables
                .iterations
                .get(&iteration)
                .is_some_and(|row| row.phase == Phase::Running)
        );
        for client in self.readers(&task) {
            if !drained.contains(&client) {
                self.push_client(client, ClientPush::TaskEnded { task: id });
            }
        }
        self.push_worker(
            worker,
            WorkerPush::Stop {
                task: id,
                reason: StopReason::Settled,
            },
        );
        if cut_short {
            self.forget_cut_short(id);
        }
        self.forget_caught_up(id);
        self.review_iteration(iteration);
    }
}

/// Checks what a task asks splits of.
fn check_source(ledger: &Ledger, task: TaskId, source: u32, repetition: u64) -> Result<(), Error> {
    if !ledger.has_source(source) {
        return Err(Error::invalid(format!(
            "the dataset of task {task} has no source {source}"
        )));
    }
    // C5.4: splits that were skipped would be neither read nor lost.
    let next = ledger.current(source).saturating_add(1);
    if repetition > next {
        return Err(Error::invalid(format!(
            "task {task} asks for repetition {repetition} of source {source}, and the next one is {next}"
        )));
    }
    Ok(())
}
