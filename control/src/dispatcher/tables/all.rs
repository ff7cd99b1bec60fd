//! All tables together: their loading from records, and the changes to be stored.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::Arc;
use std::time::Duration;

use super::books::Books;
use super::catalog::Catalog;
use super::clients::Clients;
use super::iterations::Iterations;
use super::removals::Removals;
use super::sessions::Sessions;
use super::table::Table;
use super::tasks::Tasks;
use super::workers::Workers;
use crate::dispatcher::moment::Moment;
use crate::dispatcher::record::{Change, Key, MetaRecord, Phase, Record};
use crate::dispatcher::splits::Holding;
use crate::id::{BootId, ClientId, DatasetId, IterationId, JobId, TaskId, WorkerId};

/// All tables of the dispatcher, each with its owner.
#[derive(Debug)]
pub(crate) struct Tables {
    meta: Table<(), MetaRecord>,
    pub(crate) catalog: Catalog,
    pub(crate) iterations: Iterations,
    pub(crate) books: Books,
    pub(crate) clients: Clients,
    pub(crate) tasks: Tasks,
    pub(crate) removals: Removals,
    pub(crate) workers: Workers,
    pub(crate) sessions: Sessions,
}

impl Tables {
    pub(crate) fn new(boot: BootId) -> Tables {
        let meta = MetaRecord {
            boot,
            next_dataset: DatasetId::FIRST_AUTOMATIC,
            next_job: JobId::FIRST,
            next_iteration: IterationId::FIRST,
            next_client: ClientId::FIRST,
            // Workers outlive a dispatcher whose state is lost. Task ids of a new life must therefore
            // differ from the ids of the earlier life (C1.8).
            next_task: TaskId(TaskId::FIRST.0 + (boot.0 >> 32)),
            next_worker: WorkerId::FIRST,
        };
        let mut tables = Tables {
            meta: Table::default(),
            catalog: Catalog::default(),
            iterations: Iterations::default(),
            books: Books::default(),
            clients: Clients::default(),
            tasks: Tasks::default(),
            removals: Removals::default(),
            workers: Workers::default(),
            sessions: Sessions::default(),
        };
        tables.meta.insert((), meta);
        tables
    }

    /// Returns the tables with the state of these records. `boot` counts only if no record holds a boot id.
    pub(crate) fn load(records: impl IntoIterator<Item = Record>, boot: BootId) -> Tables {
        let mut tables = Tables::new(boot);
        for record in records {
            match record {
                Record::Meta(row) => {
                    tables.meta = Table::default();
                    tables.meta.load((), row);
                }
                Record::Dataset(row) => tables.catalog.load_dataset(row),
                Record::Job(row) => tables.catalog.load_job(row),
                Record::Iteration(row) => tables.iterations.load(row),
                Record::Plan(id, row) => tables.books.load_plan(id, row),
                Record::Ledger(id, row) => tables.books.load_ledger(id, row),
                Record::Client(row) => tables.clients.load(row),
                Record::Task(row) => tables.tasks.load(row),
                Record::Holding(id, row) => tables.books.load_holding(id, row),
                Record::Removal(row) => tables.removals.load(row),
                Record::Worker(row) => tables.workers.load(row),
                Record::Session(row) => tables.sessions.load(row),
            }
        }
        tables
    }

    pub(crate) fn meta(&self) -> &MetaRecord {
        self.meta
            .get(&())
            .expect("inserted at creation and never removed")
    }

    pub(crate) fn meta_mut(&mut self) -> &mut MetaRecord {
        self.meta
            .get_mut(&())
            .expect("inserted at creation and never removed")
    }

    /// Gives every process a full timeout from `now` on. Clients get theirs from `clients_back` on, because
    /// they look for a restarted dispatcher in steps of seconds (C1.6, C6.8).
    pub(crate) fn restart_clocks(&mut self, now: Moment, clients_back: Moment) {
        self.catalog.restart_clocks(now);
        self.clients.restart_clocks(clients_back);
        self.removals.restart_clocks(now);
        self.workers.restart_clocks(now);
        self.sessions.restart_clocks(now);
        let planned = self
            .iterations
            .values()
            .filter(|row| row.phase != Phase::Planning);
        for id in planned.map(|row| row.id).collect::<Vec<_>>() {
            self.note_readers(id, now);
        }
    }

    /// Returns the leases that the tasks and the removals of an iteration hold.
    pub(crate) fn held_in(&self, iteration: IterationId) -> impl Iterator<Item = &Holding> {
        let tasks = self.tasks.rows_of(iteration);
        let of_tasks = tasks.filter_map(|task| self.books.holding(task.id));
        let removals = self.removals.rows_of(iteration);
        of_tasks.chain(removals.map(|removal| &removal.holding))
    }

    /// Starts or stops the clock that collects an unread iteration.
    pub(crate) fn note_readers(&mut self, iteration: IterationId, now: Moment) {
        let has_readers = self.clients.has_any_of(iteration);
        self.iterations.note_readers(iteration, has_readers, now);
    }

    /// Excuses all processes for a time in which the dispatcher itself did not run (C7.6).
    pub(crate) fn excuse(&mut self, time: Duration) {
        self.catalog.excuse(time);
        self.iterations.excuse(time);
        self.clients.excuse(time);
        self.removals.begun.excuse(time);
        self.workers.excuse(time);
        self.sessions.seen.excuse(time);
    }

    /// Returns whether no clock of any table is running.
    pub(crate) fn is_idle(&self) -> bool {
        self.catalog.is_idle()
            && self.iterations.unread.is_empty()
            && self.clients.seen.is_empty()
            && self.removals.begun.is_empty()
            && self.workers.is_idle()
            && self.sessions.seen.is_empty()
    }

    pub(crate) fn has_changes(&self) -> bool {
        self.meta.has_changes()
            || self.catalog.datasets.has_changes()
            || self.catalog.jobs.has_changes()
            || self.iterations.rows.has_changes()
            || self.books.plans.has_changes()
            || self.books.ledgers.has_changes()
            || self.clients.rows.has_changes()
            || self.tasks.rows.has_changes()
            || self.books.holdings.has_changes()
            || self.removals.rows.has_changes()
            || self.workers.rows.has_changes()
            || self.sessions.rows.has_changes()
    }

    /// Returns a change for every record that differs from the last call.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
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
            ($($($table:ident).+, $key:expr, $record:expr;)*) => {
                $(for change in self.$($table).+.take_changes() {
                    put(&mut changes, change, $record, $key);
                })*
            };
        }
        collect! {
            meta, |()| Key::Meta, |_, row| Record::Meta(row.clone());
            catalog.datasets, Key::Dataset, |_, row| Record::Dataset(Arc::clone(row));
            catalog.jobs, Key::Job, |_, row| Record::Job(row.clone());
            iterations.rows, Key::Iteration, |_, row| Record::Iteration(row.clone());
            books.plans, Key::Plan, |id, row| Record::Plan(*id, Arc::clone(row));
            books.ledgers, Key::Ledger, |id, row| Record::Ledger(*id, row.clone());
            clients.rows, Key::Client, |_, row| Record::Client(row.clone());
            tasks.rows, Key::Task, |_, row| Record::Task(row.clone());
            books.holdings, Key::Holding, |id, row| Record::Holding(*id, row.clone());
            removals.rows, Key::Removal, |_, row| Record::Removal(row.clone());
            workers.rows, Key::Worker, |_, row| Record::Worker(row.clone());
            sessions.rows, Key::Session, |_, row| Record::Session(row.clone());
        }
        changes
    }

    /// Drops the changes that [`take_changes`](Tables::take_changes) would return.
    pub(crate) fn forget_changes(&mut self) {
        macro_rules! forget {
            ($($($table:ident).+;)*) => { $(self.$($table).+.forget_changes();)* };
        }
        forget! {
            meta; catalog.datasets; catalog.jobs; iterations.rows; books.plans; books.ledgers; clients.rows; tasks.rows;
            books.holdings; removals.rows; workers.rows; sessions.rows;
        }
    }

    /// Returns all records, in the state of a store that has received every change.
    #[cfg(test)]
    pub(crate) fn records(&self) -> Vec<Record> {
        let meta = std::iter::once(Record::Meta(self.meta().clone()));
        let catalog = &self.catalog;
        let books = &self.books;
        meta.chain(catalog.datasets.values().cloned().map(Record::Dataset))
            .chain(catalog.jobs.values().cloned().map(Record::Job))
            .chain(self.iterations.rows.values().cloned().map(Record::Iteration))
            .chain(
                books
                    .plans
                    .iter()
                    .map(|(id, row)| Record::Plan(*id, Arc::clone(row))),
            )
            .chain(
                books
                    .ledgers
                    .iter()
                    .map(|(id, row)| Record::Ledger(*id, row.clone())),
            )
            .chain(self.clients.rows.values().cloned().map(Record::Client))
            .chain(self.tasks.rows.values().cloned().map(Record::Task))
            .chain(
                books
                    .holdings
                    .iter()
                    .map(|(id, row)| Record::Holding(*id, row.clone())),
            )
            .chain(self.removals.rows.values().cloned().map(Record::Removal))
            .chain(self.workers.rows.values().cloned().map(Record::Worker))
            .chain(self.sessions.rows.values().cloned().map(Record::Session))
            .collect()
    }
}
