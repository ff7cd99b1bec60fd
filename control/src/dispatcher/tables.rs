//! Everything the dispatcher remembers, and the indexes that find it again.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::record::{
    Change, ClientRecord, DatasetRecord, IterationRecord, JobRecord, Key, MetaRecord, Phase, Record,
    RemovalRecord, SessionRecord, TaskRecord, WorkerRecord,
};
use super::splits::{Holding, Ledger};
use super::table::Table;
use crate::id::{BootId, ClientId, DatasetId, IterationId, JobId, SessionId, TaskId, WorkerId};
use crate::planner::SplitPlan;

/// All records. The indexes follow from them and are not stored.
#[derive(Debug, PartialEq)]
pub(super) struct Tables {
    meta: Table<(), MetaRecord>,
    pub(super) datasets: Table<DatasetId, Arc<DatasetRecord>>,
    pub(super) jobs: Table<JobId, JobRecord>,
    pub(super) iterations: Table<IterationId, IterationRecord>,
    pub(super) plans: Table<IterationId, Arc<SplitPlan>>,
    pub(super) ledgers: Table<IterationId, Ledger>,
    pub(super) clients: Table<ClientId, ClientRecord>,
    pub(super) tasks: Table<TaskId, TaskRecord>,
    pub(super) holdings: Table<TaskId, Holding>,
    pub(super) removals: Table<TaskId, RemovalRecord>,
    pub(super) workers: Table<WorkerId, WorkerRecord>,
    pub(super) sessions: Table<SessionId, SessionRecord>,
    pub(super) index: Index,
}

/// Who belongs to whom.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) job_of_name: BTreeMap<String, JobId>,
    /// Iterations that a client may still join.
    pub(super) iteration_of_key: BTreeMap<(JobId, u64), IterationId>,
    pub(super) clients_of: BTreeMap<IterationId, BTreeSet<ClientId>>,
    pub(super) tasks_of: BTreeMap<IterationId, BTreeSet<TaskId>>,
    pub(super) removals_of: BTreeMap<IterationId, BTreeSet<TaskId>>,
    pub(super) tasks_on: BTreeMap<WorkerId, BTreeSet<TaskId>>,
    /// Living workers.
    pub(super) worker_of_address: BTreeMap<String, WorkerId>,
    pub(super) worker_of_session: BTreeMap<SessionId, WorkerId>,
    /// Iterations that are planned and not over.
    pub(super) running: BTreeSet<IterationId>,
    /// The jobs of each process that created some.
    pub(super) jobs_of: BTreeMap<SessionId, BTreeSet<JobId>>,
    /// The clients of each process that has some.
    pub(super) clients_by: BTreeMap<SessionId, BTreeSet<ClientId>>,
    /// What processes of role `read` have together.
    pub(super) of_read: OfRead,
}

/// How many records of each kind processes of role `read` have together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OfRead {
    pub(super) jobs: usize,
    pub(super) iterations: usize,
    pub(super) sessions: usize,
}

impl Index {
    fn note_job(&mut self, job: &JobRecord) {
        self.job_of_name.insert(job.name.clone(), job.id);
        if let Some(owner) = job.owner {
            self.jobs_of.entry(owner.session).or_default().insert(job.id);
            self.of_read.jobs += usize::from(owner.is_read);
        }
    }

    fn note_iteration(&mut self, row: &IterationRecord) {
        self.of_read.iterations += usize::from(row.owner.is_some_and(|owner| owner.is_read));
    }

    fn note_client(&mut self, row: &ClientRecord) {
        self.clients_of.entry(row.iteration).or_default().insert(row.id);
        self.clients_by.entry(row.session).or_default().insert(row.id);
    }
}

impl Tables {
    pub(super) fn new(boot: BootId) -> Tables {
        let meta = MetaRecord {
            boot,
            next_dataset: DatasetId::FIRST_AUTOMATIC,
            next_job: JobId::FIRST,
            next_iteration: IterationId::FIRST,
            next_client: ClientId::FIRST,
            // C1.8: workers outlive a dispatcher that forgets, and must not take its tasks for those of the next one.
            next_task: TaskId(TaskId::FIRST.0 + (boot.0 >> 32)),
            next_worker: WorkerId::FIRST,
        };
        let mut tables = Tables {
            meta: Table::new(),
            datasets: Table::new(),
            jobs: Table::new(),
            iterations: Table::new(),
            plans: Table::new(),
            ledgers: Table::new(),
            clients: Table::new(),
            tasks: Table::new(),
            holdings: Table::new(),
            removals: Table::new(),
            workers: Table::new(),
            sessions: Table::new(),
            index: Index::default(),
        };
        tables.meta.insert((), meta);
        tables
    }

    /// The state that these records describe. `boot` counts only if none of them says which life it is.
    pub(super) fn load(records: impl IntoIterator<Item = Record>, boot: BootId) -> Tables {
        let mut tables = Tables::new(boot);
        for record in records {
            match record {
                Record::Meta(row) => {
                    tables.meta = Table::new();
                    tables.meta.load((), row);
                }
                Record::Dataset(row) => tables.datasets.load(row.id.clone(), row),
                Record::Job(row) => tables.jobs.load(row.id, row),
                Record::Iteration(row) => tables.iterations.load(row.id, row),
                Record::Plan(id, row) => tables.plans.load(id, row),
                Record::Ledger(id, row) => tables.ledgers.load(id, row),
                Record::Client(row) => tables.clients.load(row.id, row),
                Record::Task(row) => tables.tasks.load(row.id, row),
                Record::Holding(id, row) => tables.holdings.load(id, row),
                Record::Removal(row) => tables.removals.load(row.task, row),
                Record::Worker(row) => tables.workers.load(row.id, row),
                Record::Session(row) => tables.sessions.load(row.id, row),
            }
        }
        tables.index = tables.computed_index();
        tables
    }

    pub(super) fn meta(&self) -> &MetaRecord {
        self.meta
            .get(&())
            .expect("inserted at creation and never removed")
    }

    pub(super) fn meta_mut(&mut self) -> &mut MetaRecord {
        self.meta
            .get_mut(&())
            .expect("inserted at creation and never removed")
    }

    pub(super) fn clients_of(&self, iteration: IterationId) -> Vec<ClientId> {
        of(&self.index.clients_of, &iteration)
    }

    pub(super) fn tasks_of(&self, iteration: IterationId) -> Vec<TaskId> {
        of(&self.index.tasks_of, &iteration)
    }

    pub(super) fn removals_of(&self, iteration: IterationId) -> Vec<TaskId> {
        of(&self.index.removals_of, &iteration)
    }

    pub(super) fn tasks_on(&self, worker: WorkerId) -> Vec<TaskId> {
        of(&self.index.tasks_on, &worker)
    }

    /// Living workers that take tasks, in the order in which they came.
    pub(super) fn living_workers(&self) -> Vec<WorkerId> {
        let living = self.index.worker_of_address.values().copied();
        let mut workers: Vec<WorkerId> = living.filter(|worker| !self.is_draining(*worker)).collect();
        workers.sort_unstable();
        workers
    }

    /// Whether a worker is about to leave.
    pub(super) fn is_draining(&self, worker: WorkerId) -> bool {
        self.workers.get(&worker).is_some_and(|row| row.draining)
    }

    pub(super) fn insert_task(&mut self, task: TaskRecord) {
        let id = task.id;
        self.index.tasks_of.entry(task.iteration).or_default().insert(id);
        self.index.tasks_on.entry(task.worker).or_default().insert(id);
        self.tasks.insert(id, task);
    }

    pub(super) fn remove_task(&mut self, id: TaskId) -> Option<TaskRecord> {
        let task = self.tasks.remove(&id)?;
        forget(&mut self.index.tasks_of, &task.iteration, &id);
        forget(&mut self.index.tasks_on, &task.worker, &id);
        Some(task)
    }

    pub(super) fn insert_client(&mut self, client: ClientRecord) {
        self.index.note_client(&client);
        self.clients.insert(client.id, client);
    }

    pub(super) fn remove_client(&mut self, id: ClientId) -> Option<ClientRecord> {
        let client = self.clients.remove(&id)?;
        forget(&mut self.index.clients_of, &client.iteration, &id);
        forget(&mut self.index.clients_by, &client.session, &id);
        Some(client)
    }

    pub(super) fn insert_removal(&mut self, removal: RemovalRecord) {
        self.index
            .removals_of
            .entry(removal.iteration)
            .or_default()
            .insert(removal.task);
        self.removals.insert(removal.task, removal);
    }

    pub(super) fn remove_removal(&mut self, task: TaskId) -> Option<RemovalRecord> {
        let removal = self.removals.remove(&task)?;
        forget(&mut self.index.removals_of, &removal.iteration, &task);
        Some(removal)
    }

    pub(super) fn insert_session(&mut self, session: SessionRecord) {
        self.index.of_read.sessions += usize::from(session.is_read);
        self.sessions.insert(session.id, session);
    }

    pub(super) fn remove_session(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.remove(&id) {
            self.index.of_read.sessions -= usize::from(session.is_read);
        }
    }

    pub(super) fn insert_iteration(&mut self, row: IterationRecord) {
        self.index.note_iteration(&row);
        self.index
            .iteration_of_key
            .insert((row.job, row.repetition), row.id);
        self.iterations.insert(row.id, row);
    }

    pub(super) fn remove_iteration(&mut self, id: IterationId) {
        if let Some(row) = self.iterations.remove(&id) {
            self.index.of_read.iterations -= usize::from(row.owner.is_some_and(|owner| owner.is_read));
            self.index.iteration_of_key.remove(&(row.job, row.repetition));
        }
    }

    pub(super) fn insert_job(&mut self, job: JobRecord) {
        self.index.note_job(&job);
        self.jobs.insert(job.id, job);
    }

    pub(super) fn remove_job(&mut self, id: JobId) -> Option<JobRecord> {
        let job = self.jobs.remove(&id)?;
        self.index.job_of_name.remove(&job.name);
        if let Some(owner) = job.owner {
            forget(&mut self.index.jobs_of, &owner.session, &id);
            self.index.of_read.jobs -= usize::from(owner.is_read);
        }
        Some(job)
    }

    /// Moves an iteration to another phase.
    pub(super) fn set_phase(&mut self, id: IterationId, phase: Phase) {
        let Some(row) = self.iterations.get_mut(&id) else {
            return;
        };
        row.phase = phase;
        let key = (row.job, row.repetition);
        match phase {
            Phase::Planning => {}
            Phase::Running => {
                self.index.running.insert(id);
            }
            Phase::Finished => {
                self.index.running.remove(&id);
            }
            Phase::Collected => {
                self.index.running.remove(&id);
                self.index.iteration_of_key.remove(&key);
            }
        }
    }

    pub(super) fn has_changes(&self) -> bool {
        self.meta.has_changes()
            || self.datasets.has_changes()
            || self.jobs.has_changes()
            || self.iterations.has_changes()
            || self.plans.has_changes()
            || self.ledgers.has_changes()
            || self.clients.has_changes()
            || self.tasks.has_changes()
            || self.holdings.has_changes()
            || self.removals.has_changes()
            || self.workers.has_changes()
            || self.sessions.has_changes()
    }

    /// Every record that differs from what was taken last.
    pub(super) fn take_changes(&mut self) -> Vec<Change> {
        fn put<K, V>(
            changes: &mut Vec<Change>,
            (key, row): (K, Option<&V>),
            record: impl Fn(&K, &V) -> Record,
            name: impl Fn(K) -> Key,
        ) {
            changes.push(match row {
                Some(row) => Change::Put(record(&key, row)),
                None => Change::Delete(name(key)),
            });
        }
        let mut changes = Vec::new();
        macro_rules! collect {
            ($($table:ident, $key:expr, $record:expr;)*) => {
                $(for change in self.$table.take_changes() {
                    put(&mut changes, change, $record, $key);
                })*
            };
        }
        collect! {
            meta, |()| Key::Meta, |_, row| Record::Meta(row.clone());
            datasets, Key::Dataset, |_, row| Record::Dataset(Arc::clone(row));
            jobs, Key::Job, |_, row| Record::Job(row.clone());
            iterations, Key::Iteration, |_, row| Record::Iteration(row.clone());
            plans, Key::Plan, |id, row| Record::Plan(*id, Arc::clone(row));
            ledgers, Key::Ledger, |id, row| Record::Ledger(*id, row.clone());
            clients, Key::Client, |_, row| Record::Client(row.clone());
            tasks, Key::Task, |_, row| Record::Task(row.clone());
            holdings, Key::Holding, |id, row| Record::Holding(*id, row.clone());
            removals, Key::Removal, |_, row| Record::Removal(row.clone());
            workers, Key::Worker, |_, row| Record::Worker(row.clone());
            sessions, Key::Session, |_, row| Record::Session(row.clone());
        }
        changes
    }

    /// As [`take_changes`](Tables::take_changes), for nobody.
    pub(super) fn forget_changes(&mut self) {
        macro_rules! forget {
            ($($table:ident)*) => { $(self.$table.forget_changes();)* };
        }
        forget! {
            meta datasets jobs iterations plans ledgers clients tasks holdings removals workers sessions
        }
    }

    /// The indexes as they must be.
    pub(super) fn computed_index(&self) -> Index {
        let mut index = Index::default();
        for job in self.jobs.values() {
            index.note_job(job);
        }
        for row in self.iterations.values() {
            index.note_iteration(row);
            if row.phase != Phase::Collected {
                index.iteration_of_key.insert((row.job, row.repetition), row.id);
            }
            if row.phase == Phase::Running {
                index.running.insert(row.id);
            }
        }
        for row in self.clients.values() {
            index.note_client(row);
        }
        for row in self.sessions.values() {
            index.of_read.sessions += usize::from(row.is_read);
        }
        for row in self.tasks.values() {
            index.tasks_of.entry(row.iteration).or_default().insert(row.id);
            index.tasks_on.entry(row.worker).or_default().insert(row.id);
        }
        for row in self.removals.values() {
            index
                .removals_of
                .entry(row.iteration)
                .or_default()
                .insert(row.task);
        }
        for row in self.workers.values() {
            if row.dead.is_none() {
                index.worker_of_address.insert(row.address.clone(), row.id);
            }
            index.worker_of_session.insert(row.session, row.id);
        }
        index
    }
}

fn of<K: Ord, V: Copy>(index: &BTreeMap<K, BTreeSet<V>>, key: &K) -> Vec<V> {
    index.get(key).into_iter().flatten().copied().collect()
}

fn forget<K: Ord, V: Ord>(index: &mut BTreeMap<K, BTreeSet<V>>, key: &K, value: &V) {
    if let Some(values) = index.get_mut(key) {
        values.remove(value);
        if values.is_empty() {
            index.remove(key);
        }
    }
}
