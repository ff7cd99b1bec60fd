//! Checks of the state after every event, in debug builds.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};

use super::addresses::WorkerAddresses;
use super::record::Phase;
use super::splits::Holding;
use super::tables::Tables;

impl Tables {
    /// Panics if the state contradicts itself.
    pub(super) fn check_invariants(&self, list: &WorkerAddresses) {
        self.catalog.check();
        self.iterations.check();
        self.clients.check();
        self.tasks.check();
        self.removals.check();
        self.workers.check();
        self.sessions.check();
        self.check_references();
        self.check_people();
        self.check_lifetimes();
        for id in &self.iterations.running() {
            self.check_books(*id);
            self.check_shares(*id);
            self.check_coordination(*id);
        }
        self.check_places(list);
    }

    fn check_references(&self) {
        for row in self.iterations.values() {
            let (id, is_running) = (row.id, row.phase == Phase::Running);
            assert!(
                self.catalog.find_job(&row.job).is_some(),
                "iteration {id} has no job"
            );
            assert_eq!(
                self.books.plan(id).is_some(),
                is_running,
                "iteration {id} and its plan"
            );
            assert!(is_running || !self.books.is_dynamic(id), "iteration {id} is over");
        }
        for row in self.tasks.values() {
            let id = row.id;
            assert!(
                self.iterations.is_running(row.iteration),
                "task {id} outlives its iteration"
            );
            assert!(self.workers.contains(&row.worker), "task {id} has no worker");
        }
        for id in self.books.holders() {
            assert!(self.tasks.contains(id), "leases of task {id}, which is gone");
        }
    }

    fn check_people(&self) {
        for row in self.removals.values() {
            let task = row.task;
            assert!(
                !self.tasks.contains(&task) || !row.ended.is_empty(),
                "task {task} exists although it was removed"
            );
            for client in row.awaiting.union(&row.untold) {
                assert!(
                    self.clients.contains(client),
                    "removal {task} waits for a client that is gone"
                );
            }
        }
        for row in self.clients.values() {
            assert!(
                self.iterations.contains(&row.iteration),
                "client {} has no iteration",
                row.id
            );
            let reader = self.iterations.get(&row.iteration).and_then(|row| row.reader);
            assert!(
                !self.is_exactly_once(row.iteration) || reader == Some(row.id),
                "client {} is not the only reader of its iteration",
                row.id
            );
        }
    }

    /// Checks that exactly the iterations without clients have a clock that collects them.
    fn check_lifetimes(&self) {
        for row in self.iterations.values() {
            let is_unread = row.phase != Phase::Planning && !self.clients.has_any_of(row.id);
            let is_timed = self.iterations.unread.get(&row.id).is_some();
            assert_eq!(is_timed, is_unread, "iteration {}", row.id);
        }
    }

    /// Checks that no two tasks have one share (C8.3).
    fn check_shares(&self, id: crate::id::IterationId) {
        let shares = self.iterations.get(&id).map_or(0, |row| row.shares);
        if shares > 0 {
            let in_hand = self.shares_in_hand(id);
            assert_eq!(in_hand.len(), self.tasks.count_of(id), "iteration {id}");
            assert!(in_hand.iter().all(|share| *share < shares), "iteration {id}");
        }
    }

    /// Checks the consumers and the first rounds of coordinated reads (C9.2, C9.4, C9.5).
    fn check_coordination(&self, id: crate::id::IterationId) {
        let count = self.consumers_of(id);
        let mut there = BTreeSet::new();
        for client in self.clients.rows_of(id) {
            assert_eq!(client.consumer.is_some(), count.is_some(), "client {}", client.id);
            if let Some(consumer) = client.consumer {
                assert!(there.insert(consumer), "consumer {consumer} is there twice");
            }
        }
        let row = self.iterations.get(&id);
        let begun = row.map(|row| row.consumers.clone()).unwrap_or_default();
        assert!(there.is_subset(&begun), "a consumer of {id} has not begun");
        assert!(
            begun.iter().all(|consumer| Some(*consumer) < count),
            "iteration {id}"
        );
        for task in self.tasks.rows_of(id).filter(|task| task.start_round.is_none()) {
            let answers = task.ready.len() as u64;
            assert!(
                count.is_some_and(|count| answers < u64::from(count)),
                "task {}",
                task.id
            );
            assert!(
                task.ready.keys().all(|consumer| begun.contains(consumer)),
                "task {}",
                task.id
            );
        }
        for removal in self
            .removals
            .rows_of(id)
            .filter(|removal| removal.is_coordinated())
        {
            let task = removal.task;
            assert!(count.is_some(), "removal {task}");
            assert!(removal.awaiting.is_subset(&removal.untold), "removal {task}");
            assert_eq!(removal.concluded, removal.awaiting.is_empty(), "removal {task}");
        }
    }

    /// Checks that no two living workers have one number (C8.1).
    fn check_places(&self, list: &WorkerAddresses) {
        let living = self.workers.values().filter(|row| row.dead.is_none());
        let placed: Vec<u64> = living
            .filter(|row| row.keeps_place(list))
            .map(|row| row.index)
            .collect();
        let distinct: BTreeSet<u64> = placed.iter().copied().collect();
        assert_eq!(distinct.len(), placed.len(), "two workers have one number");
    }

    fn check_books(&self, id: crate::id::IterationId) {
        let Some(ledger) = self.books.ledger(id) else {
            return;
        };
        let mut held = BTreeMap::new();
        // Several clients may hold elements of one split, which counts only once here.
        let mut in_hand = Holding::default();
        let of_clients = self.clients.rows_of(id).flat_map(|client| client.in_hand.runs());
        of_clients.for_each(|run| in_hand.put(run));
        for run in self.held_in(id).chain([&in_hand]).flat_map(Holding::runs) {
            *held.entry(run.source).or_default() += run.count;
        }
        ledger.check_invariants(&held);
    }
}
