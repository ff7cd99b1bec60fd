//! What must hold after every event, checked in debug builds.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet};

use super::machine::Dispatcher;
use super::record::Phase;
use super::splits::Holding;

impl Dispatcher {
    /// Panics if the state contradicts itself.
    pub(super) fn check_invariants(&self) {
        assert_eq!(
            self.tables.index,
            self.tables.computed_index(),
            "an index is stale"
        );
        self.check_references();
        self.check_people();
        self.check_lifetimes();
        for id in &self.tables.index.running {
            self.check_books(*id);
            self.check_shares(*id);
            self.check_coordination(*id);
        }
        self.check_places();
    }

    fn check_references(&self) {
        let tables = &self.tables;
        for row in tables.iterations.values() {
            assert!(tables.jobs.contains(&row.job), "iteration {} has no job", row.id);
            let running = row.phase == Phase::Running;
            assert_eq!(
                tables.plans.contains(&row.id),
                running,
                "iteration {} and its plan",
                row.id
            );
            assert!(
                running || !tables.ledgers.contains(&row.id),
                "iteration {} is over",
                row.id
            );
        }
        for row in tables.tasks.values() {
            assert!(
                tables.index.running.contains(&row.iteration),
                "task {} outlives its iteration",
                row.id
            );
            assert!(
                tables.workers.contains(&row.worker),
                "task {} has no worker",
                row.id
            );
        }
        for (id, _) in tables.holdings.iter() {
            assert!(tables.tasks.contains(id), "leases of task {id}, which is gone");
        }
    }

    fn check_people(&self) {
        let tables = &self.tables;
        for row in tables.removals.values() {
            assert!(
                !tables.tasks.contains(&row.task),
                "task {} is removed and is not",
                row.task
            );
            assert!(
                !row.awaiting.is_empty() || row.is_coordinated(),
                "removal {} waits for nobody",
                row.task
            );
            assert_ne!(
                self.clocks.removed.contains_key(&row.task),
                row.is_coordinated(),
                "removal {} and its deadline",
                row.task
            );
            for client in row.awaiting.union(&row.untold) {
                assert!(
                    tables.clients.contains(client),
                    "removal {} waits for a client that is gone",
                    row.task
                );
            }
        }
        for row in tables.clients.values() {
            assert!(
                tables.iterations.contains(&row.iteration),
                "client {} reads nothing",
                row.id
            );
            assert!(
                self.clocks.client_seen.contains_key(&row.id),
                "client {} has no clock",
                row.id
            );
        }
        for row in tables.workers.values() {
            assert_eq!(
                row.dead.is_none(),
                self.clocks.liveness.contains(row.id),
                "worker {}",
                row.id
            );
        }
    }

    /// Everything that may go unused has a clock.
    fn check_lifetimes(&self) {
        let (tables, clocks) = (&self.tables, &self.clocks);
        for row in tables.iterations.values() {
            let unread = row.phase != Phase::Planning && !tables.index.clients_of.contains_key(&row.id);
            assert_eq!(
                clocks.unread.contains_key(&row.id),
                unread,
                "iteration {}",
                row.id
            );
        }
        assert!(clocks.unread.keys().all(|id| tables.iterations.contains(id)));
        assert!(tables.jobs.iter().map(|(id, _)| id).eq(clocks.jobs_used.keys()));
        assert!(
            tables
                .datasets
                .iter()
                .map(|(id, _)| id)
                .eq(clocks.datasets_used.keys())
        );
        for row in tables.jobs.values() {
            assert!(
                tables.datasets.contains(&row.parameters.dataset),
                "job {} reads nothing",
                row.id
            );
        }
    }

    /// C8.3: no two tasks have one share.
    fn check_shares(&self, id: crate::id::IterationId) {
        let shares = self.tables.iterations.get(&id).map_or(0, |row| row.shares);
        if shares > 0 {
            let in_hand = self.shares_in_hand(id);
            assert_eq!(in_hand.len(), self.tables.tasks_of(id).len(), "iteration {id}");
            assert!(in_hand.iter().all(|share| *share < shares), "iteration {id}");
        }
    }

    /// C9.2, C9.4, C9.5.
    fn check_coordination(&self, id: crate::id::IterationId) {
        let count = self.consumers_of(id);
        let clients = self.tables.clients_of(id);
        let clients = clients
            .iter()
            .filter_map(|client| self.tables.clients.get(client));
        let mut there = BTreeSet::new();
        for client in clients {
            assert_eq!(client.consumer.is_some(), count.is_some(), "client {}", client.id);
            if let Some(consumer) = client.consumer {
                assert!(there.insert(consumer), "consumer {consumer} is there twice");
            }
        }
        let row = self.tables.iterations.get(&id);
        let begun = row.map(|row| row.consumers.clone()).unwrap_or_default();
        assert!(there.is_subset(&begun), "a consumer of {id} has not begun");
        assert!(
            begun.iter().all(|consumer| Some(*consumer) < count),
            "iteration {id}"
        );
        for task in self.tables.tasks_of(id) {
            let task = self.tables.tasks.get(&task);
            let Some(task) = task.filter(|task| task.start_round.is_none()) else {
                continue;
            };
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
        for task in self.tables.removals_of(id) {
            let removal = self.tables.removals.get(&task);
            let Some(removal) = removal.filter(|removal| removal.is_coordinated()) else {
                continue;
            };
            assert!(count.is_some(), "removal {task}");
            assert!(removal.awaiting.is_subset(&removal.untold), "removal {task}");
            assert_eq!(removal.concluded, removal.awaiting.is_empty(), "removal {task}");
        }
    }

    /// C8.1: no two living workers have one number.
    fn check_places(&self) {
        let living = self.tables.workers.values().filter(|row| row.dead.is_none());
        let placed: Vec<u64> = living
            .filter(|row| self.keeps_place(row))
            .map(|row| row.index)
            .collect();
        let distinct: BTreeSet<u64> = placed.iter().copied().collect();
        assert_eq!(distinct.len(), placed.len(), "two workers have one number");
    }

    fn check_books(&self, id: crate::id::IterationId) {
        let Some(ledger) = self.tables.ledgers.get(&id) else {
            return;
        };
        let tasks = self.tables.tasks_of(id);
        let removals = self.tables.removals_of(id);
        let of_tasks = tasks.iter().filter_map(|task| self.tables.holdings.get(task));
        let of_removals = removals.iter().filter_map(|task| self.tables.removals.get(task));
        let mut held = BTreeMap::new();
        let clients = self.tables.clients_of(id);
        let of_clients = clients
            .iter()
            .filter_map(|client| self.tables.clients.get(client));
        // Several clients may have a split in hand.
        let mut in_hand = Holding::default();
        let of_clients = of_clients.flat_map(|client| client.in_hand.runs());
        of_clients.for_each(|run| in_hand.put(run));
        for run in of_tasks
            .chain(of_removals.map(|removal| &removal.holding))
            .chain([&in_hand])
            .flat_map(Holding::runs)
        {
            *held.entry(run.source).or_default() += run.count;
        }
        ledger.check_invariants(&held);
    }
}
