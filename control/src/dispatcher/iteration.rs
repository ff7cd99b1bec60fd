//! Iterations: planned, given tasks, continued after losses, ended.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::sync::Arc;

use super::action::{Action, ClientPush, StopReason, WorkerPush};
use super::caching::check_pass;
use super::coordination::check_consumer;
use super::machine::{Dispatcher, Opener};
use super::outcome::Outcome;
use super::record::{Answer, ClientRecord, IterationRecord, Phase, QuotaOwner, TaskPhase, TaskRecord};
use super::splits::{Holding, Ledger, Run};
use crate::error::Error;
use crate::id::{ClientId, IterationId, JobId, RequestNumber, TaskId};
use crate::job::Policy;
use crate::planner::{PlanError, SplitPlan};
use crate::whereabouts::Whereabouts;

/// Most sources of one dataset.
const SOURCES_MAX: usize = 1024;
/// Lost workers that an iteration names.
const WORKERS_LOST_MAX: usize = 64;

impl Dispatcher {
    pub(super) fn open_iteration(
        &mut self,
        (owner, number): (QuotaOwner, Option<RequestNumber>),
        (job, repetition): (JobId, u64),
        consumer: Option<u32>,
        whereabouts: Whereabouts,
    ) -> Result<Outcome, Error> {
        check_consumer(self.job(job)?, consumer)?;
        check_pass(self.job(job)?, repetition)?;
        self.check_target(job, &whereabouts)?;
        self.clocks.jobs_used.insert(job, self.now);
        let number = number.ok_or_else(|| Error::internal("a numbered request without its number"))?;
        let opener = Opener {
            session: owner.session,
            number,
            consumer,
            whereabouts,
        };
        let existing = self
            .tables
            .index
            .iteration_of_key
            .get(&(job, repetition))
            .copied();
        let iteration = match existing {
            Some(iteration) => iteration,
            None => self.create_iteration(owner, job, repetition)?,
        };
        let phase = self.tables.iterations.get(&iteration).map(|row| row.phase);
        if phase == Some(Phase::Planning) {
            let openers = self.openers.entry(iteration).or_default();
            if openers.len() >= self.config.clients_max {
                return Err(Error::exhausted(format!(
                    "{} clients wait for this iteration already: no more may",
                    openers.len()
                )));
            }
            openers.push(opener);
            return Ok(Outcome::Later);
        }
        self.create_client(iteration, &opener).map(Outcome::Answer)
    }

    /// The shell has asked the planner (C3.1).
    pub(super) fn handle_plan(&mut self, iteration: IterationId, result: Result<SplitPlan, PlanError>) {
        if self.tables.iterations.get(&iteration).map(|row| row.phase) != Some(Phase::Planning) {
            return;
        }
        let openers = self.openers.remove(&iteration).unwrap_or_default();
        match result {
            Ok(plan) if plan.sources.len() <= SOURCES_MAX => self.start_iteration(iteration, plan),
            Ok(plan) => {
                let found = plan.sources.len();
                let error = Error::invalid(format!(
                    "the dataset has {found} sources, more than {SOURCES_MAX}"
                ));
                return self.drop_iteration(iteration, openers, &error);
            }
            Err(error) => {
                let error = Error::invalid(format!("the dataset's sources cannot be listed: {error}"));
                return self.drop_iteration(iteration, openers, &error);
            }
        }
        for opener in openers {
            let answer = self
                .create_client(iteration, &opener)
                .unwrap_or_else(Answer::Refused);
            self.answer(opener.session, opener.number, answer);
        }
        // Perhaps none became a client.
        self.note_readers(iteration);
    }

    pub(super) fn ask_for_plan(&mut self, iteration: IterationId) {
        let Some(row) = self.tables.iterations.get(&iteration) else {
            return;
        };
        let job = self.tables.jobs.get(&row.job);
        let dataset = job.and_then(|job| self.tables.datasets.get(&job.parameters.dataset));
        if let Some(dataset) = dataset {
            let action = Action::PlanSplits {
                iteration,
                repetition: row.repetition,
                dataset: Arc::clone(dataset),
            };
            self.act(action);
        }
    }

    /// Whether splits are dealt out in this iteration.
    pub(super) fn is_dynamic(&self, iteration: IterationId) -> bool {
        self.tables.ledgers.contains(&iteration)
    }

    /// Looks whether an iteration must go on, with new tasks, or is over, for everybody or for some of its readers. Called
    /// whenever something of it ended.
    pub(super) fn review_iteration(&mut self, id: IterationId) {
        if self.tables.index.running.contains(&id) {
            self.catch_up(id);
            self.advance(id);
            self.end_readers(id);
        }
    }

    fn advance(&mut self, id: IterationId) {
        let tasks = self.tables.tasks_of(id);
        // C3.4: without a task nobody knows whether there is more; the next worker finds out. A share without one is read when
        // its worker comes (C8.4).
        let is_known = !tasks.is_empty() && !self.misses_shares(id);
        if !is_known || !self.tables.removals_of(id).is_empty() {
            return;
        }
        let rows = || tasks.iter().filter_map(|task| self.tables.tasks.get(task));
        let (idle, busy): (Vec<&TaskRecord>, Vec<&TaskRecord>) = rows().partition(|task| self.is_idle(task));
        if busy.is_empty() || busy.iter().any(|task| task.phase == TaskPhase::Running) {
            return;
        }
        let free = self.splits_free(id);
        if free > 0 && !self.is_coordinated(id) && !self.is_round_in_vain(id, &tasks) {
            return self.begin_round(id, free);
        }
        let is_over = |task: &TaskRecord| match task.phase {
            TaskPhase::Running | TaskPhase::Finished => false,
            TaskPhase::Settled => true,
            TaskPhase::Failed(_) => self.is_failure_heard(task),
        };
        // C14.3: the idle ones would find nothing where another has read to the end.
        let read_to_the_end = |task: &TaskRecord| task.phase == TaskPhase::Settled && !task.stopped_early;
        let over = busy.iter().all(|task| is_over(task));
        if over && (idle.is_empty() || busy.iter().any(|task| read_to_the_end(task))) {
            self.give_up_free(id);
            self.end_iteration(id, Phase::Finished);
        }
    }

    /// Whether the tasks that were started for free splits have shown that nobody reads them: they ended by themselves, or
    /// took none.
    pub(super) fn is_round_in_vain(&self, id: IterationId, tasks: &[TaskId]) -> bool {
        let Some(row) = self.tables.iterations.get(&id).filter(|row| row.round > 0) else {
            return false;
        };
        let rows = tasks.iter().filter_map(|task| self.tables.tasks.get(task));
        let mut of_round = rows.filter(|task| task.round == row.round).peekable();
        let next_lease = self.tables.ledgers.get(&id).map(Ledger::next_lease);
        let gave_up = |task: &TaskRecord| task.stopped_early || matches!(task.phase, TaskPhase::Failed(_));
        of_round.peek().is_some() && (next_lease == Some(row.round_lease) || of_round.all(gave_up))
    }

    /// C6.5: those who could have read the free splits have finished: others begin where they ended.
    pub(super) fn begin_round(&mut self, id: IterationId, free: u64) {
        let next_lease = self.tables.ledgers.get(&id).map_or(0, Ledger::next_lease);
        let mut workers = self.tables.living_workers();
        workers.retain(|worker| self.would_be_read(id, *worker));
        if workers.is_empty() {
            return;
        }
        if let Some(row) = self.tables.iterations.get_mut(&id) {
            row.round = row.round.saturating_add(1);
            row.round_lease = next_lease;
        }
        let count = usize::try_from(free).unwrap_or(usize::MAX).min(workers.len());
        for worker in workers.into_iter().take(count) {
            self.create_task(id, worker, Some(0));
        }
    }

    /// C6.5: what new tasks have left is lost, and not silently.
    fn give_up_free(&mut self, id: IterationId) {
        let tasks = &self.tables.tasks;
        let wants_no_more = |task: TaskId| tasks.get(&task).is_some_and(|task| task.stopped_early);
        let left = self.tables.ledgers.get_mut(&id);
        let left = left.map_or_else(Vec::new, |ledger| ledger.take_wanted(wants_no_more));
        self.lose_splits(id, &left, "");
    }

    /// Ends an iteration: its tasks, removals and books go, its record and its clients stay.
    pub(super) fn end_iteration(&mut self, id: IterationId, phase: Phase) {
        let reason = match phase {
            Phase::Finished => StopReason::Settled,
            Phase::Planning | Phase::Running | Phase::Collected => StopReason::Abandoned,
        };
        for task in self.tables.tasks_of(id) {
            self.tables.holdings.remove(&task);
            if let Some(task) = self.tables.remove_task(task)
                && task.phase != TaskPhase::Settled
            {
                self.push_worker(
                    task.worker,
                    WorkerPush::Stop {
                        task: task.id,
                        reason,
                    },
                );
            }
        }
        for task in self.tables.removals_of(id) {
            self.tables.remove_removal(task);
            self.clocks.removed.remove(&task);
        }
        let done = self
            .tables
            .ledgers
            .remove(&id)
            .map_or(0, |ledger| ledger.tallies().map(|tally| tally.done).sum());
        self.tables.plans.remove(&id);
        for client in self.tables.clients_of(id) {
            self.clocks.stranded.remove(&client);
        }
        self.clocks.unread.remove(&id);
        self.clocks.incomplete.remove(&id);
        self.tables.set_phase(id, phase);
        self.note_readers(id);
        let Some(row) = self.tables.iterations.get_mut(&id) else {
            return;
        };
        row.splits_done = done;
        let splits_lost = row.splits_lost;
        self.push_clients(id, &ClientPush::IterationFinished { splits_lost });
    }

    /// These splits will not be read again: the books, the record and the clients are told (C6.4).
    pub(super) fn lose_splits(&mut self, id: IterationId, runs: &[Run], worker_address: &str) {
        if runs.is_empty() {
            return;
        }
        if let Some(ledger) = self.tables.ledgers.get_mut(&id) {
            for run in runs {
                ledger.lost(run);
            }
        }
        let named_max = self.config.lost_ranges_max;
        let splits: Vec<_> = runs.iter().map(Run::splits).collect();
        if let Some(row) = self.tables.iterations.get_mut(&id) {
            row.splits_lost += splits.iter().map(|range| range.count).sum::<u64>();
            let room = named_max.saturating_sub(row.lost.len());
            row.lost.extend(splits.iter().take(room));
        }
        let push = ClientPush::SplitsLost {
            splits,
            worker_address: worker_address.to_owned(),
        };
        self.push_clients(id, &push);
    }

    pub(super) fn note_lost_worker(&mut self, id: IterationId, address: &str) {
        if let Some(row) = self.tables.iterations.get_mut(&id) {
            row.workers_lost.retain(|known| known != address);
            if row.workers_lost.len() == WORKERS_LOST_MAX {
                row.workers_lost.remove(0);
            }
            row.workers_lost.push(address.to_owned());
        }
    }

    fn create_iteration(
        &mut self,
        owner: QuotaOwner,
        job: JobId,
        repetition: u64,
    ) -> Result<IterationId, Error> {
        self.check_iterations(owner)?;
        let shares = self.shares_under(self.job(job)?.parameters.policy);
        let id = self.tables.meta().next_iteration;
        self.tables.meta_mut().next_iteration = IterationId(id.0 + 1);
        let record = IterationRecord {
            id,
            job,
            repetition,
            phase: Phase::Planning,
            round: 0,
            lost: Vec::new(),
            splits_lost: 0,
            splits_done: 0,
            workers_lost: Vec::new(),
            was_read: false,
            failures: Vec::new(),
            round_lease: 0,
            shares,
            consumers: BTreeSet::new(),
            left: Vec::new(),
            owner: Some(owner),
        };
        self.tables.insert_iteration(record);
        self.ask_for_plan(id);
        Ok(id)
    }

    fn start_iteration(&mut self, id: IterationId, plan: SplitPlan) {
        let policy = self
            .tables
            .iterations
            .get(&id)
            .and_then(|row| self.tables.jobs.get(&row.job))
            .map(|job| job.parameters.policy);
        if policy == Some(Policy::Dynamic) {
            self.tables.ledgers.insert(id, Ledger::new(&plan));
        }
        self.tables.plans.insert(id, Arc::new(plan));
        self.tables.set_phase(id, Phase::Running);
        // C3.2, C9.3
        for worker in self.tables.living_workers() {
            self.create_task(id, worker, Some(0));
        }
    }

    fn drop_iteration(&mut self, id: IterationId, openers: Vec<Opener>, error: &Error) {
        self.tables.remove_iteration(id);
        for opener in openers {
            self.answer(opener.session, opener.number, Answer::Refused(error.clone()));
        }
    }

    fn create_client(&mut self, iteration: IterationId, opener: &Opener) -> Result<Answer, Error> {
        self.check_not_left(iteration, &opener.whereabouts)?;
        self.check_clients(opener.session)?;
        self.take_consumer(iteration, opener.consumer)?;
        let id = self.tables.meta().next_client;
        self.tables.meta_mut().next_client = ClientId(id.0 + 1);
        self.tables.insert_client(ClientRecord {
            id,
            session: opener.session,
            iteration,
            consumer: opener.consumer,
            whereabouts: opener.whereabouts,
            reads_before: None,
            in_hand: Holding::default(),
        });
        self.clocks.client_seen.insert(id, self.now);
        self.clocks.unread.remove(&iteration);
        // What is free may be read again now (C14.3), or nothing of its own be left (C14.2).
        self.review_iteration(iteration);
        Ok(Answer::Client(id))
    }
}
