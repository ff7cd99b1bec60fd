//! Tasks: each is one worker's share of an iteration, from its start until its readers have received
//! everything.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::action::{ClientPush, Reply, StopReason, TaskDef, WorkerPush};
use super::config::ERROR_BYTES_MAX;
use super::exactness::STOPPED_EARLY;
use super::failure::{FailureReport, TaskFailure};
use super::happened::ServiceEventKind;
use super::iteration::FAILURES_MAX;
use super::outcome::Outcome;
use super::record::{Answer, Phase, TaskPhase, TaskRecord};
use super::splits::Holding;
use super::state::ServiceState;
use super::tables::{LeaseTerms, Tables};
use crate::error::Error;
use crate::id::{IterationId, SessionId, TaskId, WorkerId};
use crate::job::Policy;
use crate::planner::SplitPlan;
use crate::split::{LeaseRange, SplitPace};

/// The way in which a task ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    /// True if the task read its splits to the end.
    pub(super) exhausted: bool,
    /// True if the task stopped early because its worker drains: it read only the splits that it had begun.
    pub(super) cut_short: bool,
}

impl ServiceState {
    pub(super) fn create_task(&mut self, iteration: IterationId, worker: WorkerId, start_round: Option<u64>) {
        // A draining worker is given no further task (C10.1).
        if !self.tables.is_wanted(iteration, worker) || self.tables.workers.is_draining(worker) {
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
            alone: None,
        };
        self.tables.tasks.insert(task.clone());
        self.tables.books.begin_task(iteration, id);
        self.push_worker(worker, WorkerPush::Start { task: id });
        for client in self.tables.readers(&task) {
            self.tables.clients.stranded.clear(&client);
            if let Some(info) = self.tables.task_info(client, &task) {
                self.push_client(client, ClientPush::TaskAdded(info));
            }
        }
    }

    /// Leases splits to a task (C5.1 to C5.4). `is_idle` says that the task has read all its splits to the
    /// end (C16.8).
    pub(super) fn lease_splits(
        &mut self,
        session: SessionId,
        task: TaskId,
        (source, repetition): (u32, u64),
        (want, is_idle): (u32, bool),
        pace: Option<SplitPace>,
    ) -> Result<Outcome, Error> {
        let iteration = self.tables.own_task(session, task)?.iteration;
        self.tables.check_lease(task, want)?;
        self.tables.check_only_pass(iteration, repetition)?;
        if is_idle {
            self.tables.note_idle(task);
        }
        let (dealing, most) = self.tables.dealing_to(task, pace, is_idle, self.now);
        let sharers = self.tables.tasks.count_of(iteration).max(1) as u64;
        if let Some(pace) = pace {
            self.paces.note_splits(task, pace);
        }
        let division = self.divisions.of(iteration, &self.paces, &self.tables);
        let weight = division.weight(self.paces.element_s(task));
        let turn = self.tables.turn_of(task, pace, weight);
        let terms = LeaseTerms {
            want,
            dealing,
            most,
            waits_for_turn: turn.is_some_and(|turn| self.turns.must_wait(iteration, task, turn)),
            batch_max: self.config.lease_batch_max,
            held_max: self.config.held_splits_max,
            sharers,
            pace: pace.map(|pace| (pace, division.per_1000_s(pace))),
        };
        let leased = self
            .tables
            .books
            .lease(iteration, task, (source, repetition), terms)?;
        if let Some(turn) = turn {
            let splits = leased.runs.iter().map(|run| run.count).sum();
            self.turns.note(iteration, task, splits, turn);
        }
        self.tables.note_suspect(task, &leased.runs, self.now);
        Ok(Outcome::Answer(Answer::Splits {
            iteration,
            end: leased.end,
            runs: leased.runs,
            current: leased.current,
            // A task with a known pace must not take the splits of a task that has not begun. Further leases
            // are offered only after every task of the iteration has reported its pace.
            more: division.has_all() && leased.is_cut,
        }))
    }

    /// Takes back splits that a task has not started (C5.5).
    pub(super) fn return_splits(
        &mut self,
        session: SessionId,
        task: TaskId,
        leases: &[LeaseRange],
    ) -> Result<(), Error> {
        let iteration = self.tables.own_task(session, task)?.iteration;
        if self.tables.books.holding(task).is_some() {
            self.tables.books.take_back(iteration, task, leases);
            self.review_iteration(iteration);
        }
        Ok(())
    }

    pub(super) fn finish_task(
        &mut self,
        session: SessionId,
        id: TaskId,
        delivered: bool,
        how: Ended,
    ) -> Result<(), Error> {
        match self.tables.own_task(session, id).map(|task| task.iteration) {
            // Elements must not be missing without an error (C16.6).
            Ok(iteration) if !how.cut_short && self.tables.ends_too_early(iteration, id, how.exhausted) => {
                return self.fail_task(session, id, FailureReport::new(STOPPED_EARLY));
            }
            Ok(_) => {}
            // The task ended with its iteration: the report arrived late, or twice.
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
        report: FailureReport,
    ) -> Result<(), Error> {
        let FailureReport { mut message, element } = report;
        let task = match self.tables.own_task(session, id) {
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
        let worker_address = self.tables.workers.address_of(task.worker);
        if let Some(row) = self.tables.iterations.get_mut(&task.iteration)
            && row.failures.len() < FAILURES_MAX
        {
            row.failures.push(TaskFailure {
                task: id,
                worker_address: worker_address.clone(),
                message: message.clone(),
                worker: Some(task.worker),
                element,
            });
            // Events have the limit of failures, so that many equal failures leave other events in place.
            let text = format!("has a failed task {id} on worker {worker_address}: {message}");
            self.tell_of_epoch(ServiceEventKind::TaskFailed, task.iteration, &text);
        }
        let push = ClientPush::TaskFailed {
            task: id,
            worker_address: worker_address.clone(),
            message,
            element,
        };
        for client in self.tables.readers(&task) {
            self.push_client(client, push.clone());
        }
        // The held splits are lost, because another worker would fail at the same element (C6.6).
        let held = self.tables.books.take_all_held(id);
        self.lose_splits(task.iteration, &held, &worker_address);
        self.review_iteration(task.iteration);
        Ok(())
    }

    /// Ends a failed task whose worker is gone, because the worker can no longer report the failure to its
    /// readers (C6.6).
    pub(super) fn end_failed_task(&mut self, id: TaskId) {
        let Some(task) = self.tables.tasks.get(&id) else {
            return;
        };
        let iteration = task.iteration;
        for client in self.tables.readers(task) {
            self.push_client(client, ClientPush::TaskEnded { task: id });
        }
        self.review_iteration(iteration);
    }

    /// Settles a finished task if every reader has received all of its elements (C3.3).
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
            let clients = self.tables.readers(task);
            let have_all = clients.iter().all(|client| task.drained.contains(client));
            // Without readers, the buffered elements of the task wait for the next reader. A reader itself
            // reports the splits that its user is not done with.
            let is_known = self.tables.books.holding(id).is_none_or(Holding::is_empty);
            let is_over = if self.tables.is_coordinated(task.iteration) {
                // Every consumer receives the end from the worker, in the same step (C9.7).
                have_all && self.tables.have_consumers_joined(task.iteration)
            } else if task.delivered {
                have_all || is_known
            } else {
                have_all && !clients.is_empty()
            };
            // A task is settled only after its worker has answered for every client that is gone (C6.7).
            if is_over && task.releasing.is_empty() {
                return self.settle_task(id);
            }
        }
        let iteration = task.iteration;
        self.review_iteration(iteration);
    }

    fn settle_task(&mut self, id: TaskId) {
        let Some(task) = self.tables.tasks.get_mut(&id) else {
            return;
        };
        task.phase = TaskPhase::Settled;
        let drained = std::mem::take(&mut task.drained);
        let task = task.clone();
        let (iteration, worker, cut_short) = (task.iteration, task.worker, task.cut_short);
        let held = self.tables.books.end_task(id);
        let held = held.map(|mut holding| holding.take_all()).unwrap_or_default();
        // A task that stopped early has already given back the splits that it had not started (C5.5).
        self.tables.books.done(iteration, &held);
        debug_assert!(
            self.tables
                .iterations
                .get(&iteration)
                .is_some_and(|row| row.phase == Phase::Running)
        );
        for client in self.tables.readers(&task) {
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
        self.tables.tasks.forget_caught_up(id);
        self.review_iteration(iteration);
    }
}

impl Tables {
    pub(super) fn describe_task(&self, session: SessionId, task: TaskId) -> Result<Outcome, Error> {
        let task = self.own_task(session, task)?;
        let unknown = || Error::internal(format!("task {} has no iteration, job or dataset", task.id));
        let iteration = self.iterations.get(&task.iteration).ok_or_else(unknown)?;
        let job = self.catalog.find_job(&iteration.job).ok_or_else(unknown)?;
        let dataset = self
            .catalog
            .find_dataset(&job.parameters.dataset)
            .ok_or_else(unknown)?;
        let worker = self.workers.get(&task.worker).ok_or_else(unknown)?;
        let plan = self.books.plan(task.iteration).ok_or_else(unknown)?;
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
            exactly_once: job.parameters.exactly_once.clone(),
            dataset: Arc::clone(dataset),
            plan,
        };
        Ok(Outcome::Reply(Reply::Task(Box::new(def))))
    }

    /// Refuses splits to a task that has finished, and refuses a request for zero splits.
    fn check_lease(&self, task: TaskId, want: u32) -> Result<(), Error> {
        if self
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

    /// Returns whether readers may still receive elements or the failure of a task from its worker.
    pub(super) fn is_served(&self, task: &TaskRecord) -> bool {
        match task.phase {
            TaskPhase::Running | TaskPhase::Finished => !task.stopped,
            TaskPhase::Settled => false,
            TaskPhase::Failed(_) => {
                let worker = self.workers.get(&task.worker);
                worker.is_some_and(|worker| worker.dead.is_none())
            }
        }
    }

    /// Returns the task if it exists, is assigned to this living worker, and its iteration is running.
    pub(super) fn own_task(&self, session: SessionId, task: TaskId) -> Result<&TaskRecord, Error> {
        let worker = self.workers.living_of(session)?;
        let row = self.tasks.get(&task).filter(|row| row.worker == worker);
        row.filter(|row| self.iterations.is_running(row.iteration))
            .ok_or_else(|| Error::aborted(format!("task {task} is not assigned to this worker: stop it")))
    }
}
