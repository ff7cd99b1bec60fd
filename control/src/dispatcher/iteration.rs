//! Iterations: how they are planned, given tasks, continued after losses, and ended.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;
use std::sync::Arc;

use super::action::{Action, ClientPush, StopReason, WorkerPush};
use super::caching::check_pass;
use super::coordination::check_consumer;
use super::happened::{ServiceEventKind, described};
use super::machine::Dispatcher;
use super::outcome::Outcome;
use super::record::{Answer, ClientRecord, IterationRecord, Phase, QuotaOwner, TaskPhase, TaskRecord};
use super::sharding::shares_under;
use super::splits::{Holding, Ledger, Run};
use super::state::ServiceState;
use super::tables::{Opener, Tables};
use crate::error::Error;
use crate::id::{ClientId, IterationId, JobId, RequestNumber, TaskId};
use crate::job::Policy;
use crate::planner::{PlanError, SplitPlan};
use crate::whereabouts::Whereabouts;

/// Maximum number of failures that an iteration remembers. At 16 KiB each, all of them fit in one push.
pub(super) const FAILURES_MAX: usize = 16;
/// Maximum number of sources of one dataset.
const SOURCES_MAX: usize = 1024;

impl Dispatcher {
    /// Handles the planner's answer to a request for a plan (C3.1).
    pub(super) fn handle_plan(&mut self, iteration: IterationId, result: Result<SplitPlan, PlanError>) {
        if self.state.tables.iterations.phase_of(iteration) != Some(Phase::Planning) {
            return;
        }
        let openers = self.state.tables.iterations.take_openers(iteration);
        match self.state.tables.admit_plan(iteration, result) {
            Ok(plan) => self.state.start_iteration(iteration, plan),
            Err(error) => return self.drop_iteration(iteration, openers, &error),
        }
        for opener in openers {
            let answer = self
                .state
                .create_client(iteration, &opener)
                .unwrap_or_else(Answer::Refused);
            self.answer(opener.session, opener.number, answer);
        }
        // Every opener may have been refused, so that the iteration has no client.
        self.state.tables.note_readers(iteration, self.state.now);
    }

    fn drop_iteration(&mut self, id: IterationId, openers: Vec<Opener>, error: &Error) {
        let text = format!("cannot begin: {}.", error.message);
        self.state.tell_of_epoch(ServiceEventKind::EpochFailed, id, &text);
        self.state.tables.iterations.remove(id);
        for opener in openers {
            self.answer(opener.session, opener.number, Answer::Refused(error.clone()));
        }
    }
}

impl ServiceState {
    pub(super) fn open_iteration(
        &mut self,
        (owner, number): (QuotaOwner, Option<RequestNumber>),
        (job, repetition): (JobId, u64),
        consumer: Option<u32>,
        whereabouts: Whereabouts,
    ) -> Result<Outcome, Error> {
        check_consumer(self.tables.catalog.job(job)?, consumer)?;
        check_pass(self.tables.catalog.job(job)?, repetition)?;
        self.tables.check_target(job, &whereabouts)?;
        self.tables.catalog.use_job(job, self.now);
        let number =
            number.ok_or_else(|| Error::internal("a numbered request arrived without its number"))?;
        let opener = Opener {
            session: owner.session,
            number,
            consumer,
            whereabouts,
        };
        let iteration = match self.tables.iterations.of_key(job, repetition) {
            Some(iteration) => iteration,
            None => self.create_iteration(owner, job, repetition)?,
        };
        let iterations = &mut self.tables.iterations;
        if iterations.phase_of(iteration) == Some(Phase::Planning) {
            iterations.await_plan(iteration, opener, self.config.clients_max)?;
            return Ok(Outcome::Later);
        }
        self.create_client(iteration, &opener).map(Outcome::Answer)
    }

    pub(super) fn ask_for_plan(&mut self, iteration: IterationId) {
        let Some(row) = self.tables.iterations.get(&iteration) else {
            return;
        };
        let job = self.tables.catalog.find_job(&row.job);
        let dataset = job.and_then(|job| self.tables.catalog.find_dataset(&job.parameters.dataset));
        if let Some(dataset) = dataset {
            let action = Action::PlanSplits {
                iteration,
                repetition: row.repetition,
                dataset: Arc::clone(dataset),
            };
            self.act(action);
        }
    }

    /// Decides whether an iteration needs new tasks, or is over for all or some of its readers. Called
    /// whenever a part of the iteration ended.
    pub(super) fn review_iteration(&mut self, id: IterationId) {
        if self.tables.iterations.is_running(id) {
            self.catch_up(id);
            self.advance(id);
            self.end_readers(id);
        }
    }

    fn advance(&mut self, id: IterationId) {
        let tasks = self.tables.tasks.of(id);
        // An iteration without a task waits for a worker, because no task has shown yet whether its sources
        // are exhausted (C3.4). A share without a task is read when its worker registers (C8.4).
        let is_known = !tasks.is_empty() && !self.tables.misses_shares(id);
        if !is_known || self.tables.removals.has_any_of(id) {
            return;
        }
        let rows = || tasks.iter().filter_map(|task| self.tables.tasks.get(task));
        // Most reviews find a task that is still being read, and need not look at all tasks.
        let is_reading =
            |task: &TaskRecord| task.phase == TaskPhase::Running && !self.tables.is_idle_task(task);
        if rows().any(is_reading) {
            return;
        }
        let (idle, busy): (Vec<&TaskRecord>, Vec<&TaskRecord>) =
            rows().partition(|task| self.tables.is_idle_task(task));
        if busy.is_empty() {
            return;
        }
        let free = self.tables.splits_free(id);
        if free > 0 && !self.tables.is_round_in_vain(id, &tasks) {
            return self.begin_round(id, free);
        }
        let is_over = |task: &TaskRecord| match task.phase {
            TaskPhase::Running | TaskPhase::Finished => false,
            TaskPhase::Settled => true,
            TaskPhase::Failed(_) => self.tables.is_failure_heard(task),
        };
        // Idle tasks would find no splits after another task has read the sources to their end (C14.3).
        let read_to_the_end = |task: &TaskRecord| task.phase == TaskPhase::Settled && !task.stopped_early;
        let over = busy.iter().all(|task| is_over(task));
        if over && (idle.is_empty() || busy.iter().any(|task| read_to_the_end(task))) {
            self.give_up_free(id);
            self.end_iteration(id, Phase::Finished);
        }
    }

    /// Starts new tasks for free splits after every earlier task has finished (C6.5).
    pub(super) fn begin_round(&mut self, id: IterationId, free: u64) {
        let next_lease = self.tables.books.ledger(id).map_or(0, Ledger::next_lease);
        let mut workers = self.tables.workers.taking_tasks();
        workers.retain(|worker| self.tables.would_be_read(id, *worker));
        if workers.is_empty() || self.tables.has_lost_its_reader(id) {
            return;
        }
        if let Some(row) = self.tables.iterations.get_mut(&id) {
            row.round = row.round.saturating_add(1);
            row.round_lease = next_lease;
        }
        let count = usize::try_from(free).unwrap_or(usize::MAX).min(workers.len());
        let start_round = self.tables.late_start(id);
        for worker in workers.into_iter().take(count) {
            self.create_task(id, worker, start_round);
        }
    }

    /// Declares the free splits that the new tasks left as lost, and reports the loss (C6.5).
    fn give_up_free(&mut self, id: IterationId) {
        let Tables { books, tasks, .. } = &mut self.tables;
        let left = books.take_wanted(id, |task| tasks.stopped_early(task));
        self.lose_splits(id, &left, "");
    }

    /// Ends an iteration: deletes its tasks, removals and books, and keeps its record and its clients.
    pub(super) fn end_iteration(&mut self, id: IterationId, phase: Phase) {
        let reason = match phase {
            Phase::Finished => StopReason::Settled,
            Phase::Planning | Phase::Running | Phase::Collected => StopReason::Abandoned,
        };
        for task in self.tables.tasks.of(id) {
            self.tables.books.end_task(task);
            if let Some(task) = self.tables.tasks.remove(task)
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
        for task in self.tables.removals.of(id) {
            self.tables.removals.remove(task);
        }
        let done = self.tables.books.close(id);
        for client in self.tables.clients.of(id) {
            self.tables.clients.stranded.clear(&client);
        }
        self.tables.iterations.unread.remove(&id);
        self.tables.iterations.incomplete.clear(&id);
        self.tables.iterations.set_phase(id, phase);
        self.tables.note_readers(id, self.now);
        let Some(row) = self.tables.iterations.get_mut(&id) else {
            return;
        };
        row.splits_done = done;
        let splits_lost = row.splits_lost;
        let text = format!("{done} splits delivered, {splits_lost} lost.");
        match phase {
            Phase::Finished => {
                let text = format!("is finished: {text}");
                self.tell_of_epoch(ServiceEventKind::EpochFinished, id, &text);
            }
            Phase::Planning | Phase::Running | Phase::Collected => {
                let text = format!("has ended, because no trainer reads it: {text}");
                self.tell_of_epoch(ServiceEventKind::EpochGivenUp, id, &text);
            }
        }
        self.push_clients(id, &ClientPush::IterationFinished { splits_lost });
    }

    /// Declares splits lost: records the loss in the books and in the iteration, and tells the clients that
    /// no worker reads these splits again (C6.4).
    pub(super) fn lose_splits(&mut self, id: IterationId, runs: &[Run], worker_address: &str) {
        if runs.is_empty() {
            return;
        }
        self.tables.books.lost(id, runs);
        let cause = match worker_address {
            "" => String::new(),
            address => format!(" with worker {address}"),
        };
        let text = format!("has lost splits{cause}: {}.", described(runs));
        self.tell_of_epoch(ServiceEventKind::SplitsLost, id, &text);
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

    fn create_iteration(
        &mut self,
        owner: QuotaOwner,
        job: JobId,
        repetition: u64,
    ) -> Result<IterationId, Error> {
        self.check_iterations(owner)?;
        let policy = self.tables.catalog.job(job)?.parameters.policy;
        let shares = shares_under(policy, &self.config.worker_addresses);
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
            reader: None,
            deaths: Vec::new(),
            skipped: Vec::new(),
        };
        self.tables.iterations.insert(record);
        self.ask_for_plan(id);
        Ok(id)
    }

    fn start_iteration(&mut self, id: IterationId, plan: SplitPlan) {
        let policy = self.tables.parameters_of(id).map(|parameters| parameters.policy);
        self.tables.books.open(id, plan, policy == Some(Policy::Dynamic));
        self.tables.iterations.set_phase(id, Phase::Running);
        // Every living worker gets a task, whose first round is 0 (C3.2, C9.3).
        let workers = self.tables.workers.taking_tasks();
        let text = format!("has begun on {} workers.", workers.len());
        self.tell_of_epoch(ServiceEventKind::EpochBegun, id, &text);
        for worker in workers {
            self.create_task(id, worker, Some(0));
        }
    }

    fn create_client(&mut self, iteration: IterationId, opener: &Opener) -> Result<Answer, Error> {
        self.tables.check_not_left(iteration, &opener.whereabouts)?;
        self.tables.check_sole_reader(iteration)?;
        self.check_clients(opener.session)?;
        self.tables
            .iterations
            .take_consumer(iteration, opener.consumer, opener.session)?;
        let id = self.tables.meta().next_client;
        self.tables.meta_mut().next_client = ClientId(id.0 + 1);
        let row = ClientRecord {
            id,
            session: opener.session,
            iteration,
            consumer: opener.consumer,
            whereabouts: opener.whereabouts,
            reads_before: None,
            in_hand: Holding::default(),
        };
        self.tables.clients.insert(row, self.now);
        self.tables.note_sole_reader(iteration, id);
        self.tables.iterations.unread.remove(&iteration);
        // With a new client, free splits may be read again (C14.3), or the client's own part of the
        // iteration may already be finished (C14.2).
        self.review_iteration(iteration);
        Ok(Answer::Client(id))
    }
}

impl Tables {
    /// Returns the plan with which an iteration starts, or the error for which its openers are refused.
    fn admit_plan(&self, id: IterationId, result: Result<SplitPlan, PlanError>) -> Result<SplitPlan, Error> {
        let plan = result
            .map_err(|error| Error::invalid(format!("the dataset's sources cannot be listed: {error}")))?;
        let found = plan.sources.len();
        if found > SOURCES_MAX {
            return Err(Error::invalid(format!(
                "the dataset has {found} sources, more than {SOURCES_MAX}"
            )));
        }
        self.select_splits(id, plan)
    }

    /// Returns whether the current round has shown that no task wants its free splits: its tasks ended by
    /// themselves, or took no split.
    pub(super) fn is_round_in_vain(&self, id: IterationId, tasks: &[TaskId]) -> bool {
        let Some(row) = self.iterations.get(&id).filter(|row| row.round > 0) else {
            return false;
        };
        let rows = tasks.iter().filter_map(|task| self.tasks.get(task));
        let mut of_round = rows.filter(|task| task.round == row.round).peekable();
        let next_lease = self.books.ledger(id).map(Ledger::next_lease);
        let gave_up = |task: &TaskRecord| task.stopped_early || matches!(task.phase, TaskPhase::Failed(_));
        of_round.peek().is_some() && (next_lease == Some(row.round_lease) || of_round.all(gave_up))
    }
}
