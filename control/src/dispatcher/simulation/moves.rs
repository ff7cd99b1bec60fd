//! The possible steps of the simulated world, one at a time.

use std::time::Duration;

use millstream_link::Role;

use super::actors::{Sent, SimClient, SimTask, SimWorker};
use super::world::{CLIENTS_MAX, World};
use crate::dispatcher::{Dispatcher, Event, Record, Reply, Request};
use crate::id::{BootId, ClientId, SessionId, TaskId};
use crate::split::{LeaseRange, Seen};

impl World {
    /// Performs one random step.
    pub(super) fn step(&mut self, op: u8, choice: u64) {
        if choice.is_multiple_of(3) {
            self.answer_releases();
        }
        let pick = usize::try_from(choice % 97).unwrap();
        match op {
            0 => self.end_worker(pick, choice.is_multiple_of(2)),
            1 => self.restart_worker(pick),
            2 => self.cut_off_worker(pick),
            3 => self.end_client(pick, choice.is_multiple_of(2)),
            4 => self.toggle_deaf(pick),
            5 => self.pass(Duration::from_millis(choice % 7000)),
            6 | 7 => self.add_worker(),
            8 => self.reload(),
            9 | 10 => self.add_client(),
            11 => self.pass(Duration::from_millis(choice % 1500)),
            12..=14 => self.lease(pick, choice),
            15..=19 => self.produce(pick),
            20..=22 => self.deliver(pick, choice),
            23..=25 => self.arrive(pick, choice),
            26 | 27 => self.report(pick),
            28 => self.acknowledge(pick),
            29 => self.finish(pick, choice.is_multiple_of(2)),
            30 => self.drain_tasks(pick),
            32 => self.drain_worker(pick),
            _ => self.return_splits(pick),
        }
    }

    pub(super) fn end_worker(&mut self, pick: usize, gracefully: bool) {
        let leaving = picked(&mut self.workers, pick).filter(|worker| gracefully && !worker.cut_off);
        let session = leaving.map(|worker| worker.session);
        self.kill_worker(pick);
        if let Some(session) = session {
            self.ask(session, Role::Worker, Request::LeaveWorker).ok();
        }
    }

    /// Drains a worker, which returns the splits that it has not begun (C10.1, C10.2).
    pub(super) fn drain_worker(&mut self, pick: usize) {
        let Some(worker) = picked(&mut self.workers, pick).filter(|worker| !worker.cut_off) else {
            return;
        };
        let session = worker.session;
        if std::mem::replace(&mut worker.draining, true) {
            return;
        }
        let unstarted = worker.tasks.iter_mut().map(|(id, task)| {
            let leases = task.splits.drain(..).map(|(_, lease)| lease);
            (*id, LeaseRange::collect(leases))
        });
        let unstarted: Vec<_> = unstarted.collect();
        // The request is refused if the worker was given up meanwhile.
        self.ask(session, Role::Worker, Request::DrainWorker).ok();
        for (task, leases) in unstarted {
            self.ask(session, Role::Worker, Request::ReturnSplits { task, leases })
                .ok();
        }
    }

    /// Lets a draining worker leave once it has no task left (C10.5).
    fn leave_drained(&mut self, pick: usize) {
        let leaving = picked(&mut self.workers, pick);
        let leaving = leaving.filter(|worker| worker.draining && worker.tasks.is_empty() && !worker.cut_off);
        if let Some(worker) = leaving {
            worker.alive = false;
            let session = worker.session;
            self.ask(session, Role::Worker, Request::LeaveWorker).ok();
        }
    }

    fn is_draining(&self, session: SessionId) -> bool {
        let worker = self.workers.iter().find(|worker| worker.session == session);
        worker.is_some_and(|worker| worker.draining)
    }

    pub(super) fn kill_worker(&mut self, pick: usize) {
        if let Some(worker) = picked(&mut self.workers, pick) {
            worker.alive = false;
            worker.tasks.clear();
        }
    }

    pub(super) fn restart_worker(&mut self, pick: usize) {
        let Some(worker) = picked(&mut self.workers, pick) else {
            return;
        };
        let address = worker.address.clone();
        self.kill_worker(pick);
        self.start_worker(address);
    }

    pub(super) fn cut_off_worker(&mut self, pick: usize) {
        if let Some(worker) = picked(&mut self.workers, pick) {
            worker.cut_off = true;
        }
    }

    /// Lets a worker drop the elements in flight to a client that it still serves, and report their splits
    /// (C6.7).
    fn miss_elements(&mut self, pick: usize) {
        let Some(client) = self.clients.first().map(|client| client.id) else {
            return;
        };
        for (session, task) in self.tasks_of(pick) {
            let Some(state) = self.task(session, task) else {
                continue;
            };
            state.miss(client);
            let leases = LeaseRange::collect(state.missed.remove(&client).unwrap_or_default());
            if !leases.is_empty() {
                let request = Request::SplitsMissed(task, client, leases, false);
                self.ask(session, Role::Worker, request).ok();
            }
        }
    }

    pub(super) fn end_client(&mut self, pick: usize, gracefully: bool) {
        if self.once.is_some() {
            // No other client could continue the iteration.
            return self.miss_elements(pick);
        }
        let Some(client) = picked(&mut self.clients, pick) else {
            return;
        };
        let (session, id) = (client.session, client.id);
        self.lapse(id);
        if gracefully {
            self.excuse_held();
            self.ask(session, Role::Read, Request::Release { client: id })
                .ok();
        }
    }

    pub(super) fn toggle_deaf(&mut self, pick: usize) {
        let Some(client) = picked(&mut self.clients, pick) else {
            return;
        };
        if client.deaf {
            let id = client.id;
            return self.reconnect(id);
        }
        client.deaf = true;
    }

    pub(super) fn reconnect(&mut self, id: ClientId) {
        let Some(client) = self.clients.iter_mut().find(|client| client.id == id) else {
            return;
        };
        client.deaf = false;
        let session = client.session;
        if self
            .ask(session, Role::Read, Request::Attach { client: id })
            .is_err()
        {
            self.lapse(id);
        }
    }

    /// Lets time pass, in steps in which every living process sends a heartbeat.
    pub(super) fn pass(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.now < end {
            self.now = (self.now + Duration::from_millis(500)).min(end);
            self.acknowledge_in_time();
            let gone = |client: &SimClient| {
                let known = self.machine.state.tables.clients.contains(&client.id);
                known && (client.deaf || !client.alive)
            };
            if self.clients.iter().any(gone) {
                // The client may lapse now, or may not acknowledge before the deadline.
                self.excuse_held();
            }
            let workers = self
                .workers
                .iter()
                .filter(|worker| worker.alive && !worker.cut_off);
            let workers: Vec<_> = workers.map(|worker| (worker.session, true, vec![])).collect();
            let clients = self.clients.iter().filter(|client| client.alive);
            let clients: Vec<_> = clients
                .map(|client| (client.session, false, vec![client.id]))
                .collect();
            for (session, worker, clients) in workers.into_iter().chain(clients) {
                self.machine.handle(
                    Event::Heartbeat {
                        session,
                        worker,
                        clients,
                    },
                    self.now,
                );
            }
            self.machine.handle(Event::Woken, self.now);
            self.settle();
        }
    }

    /// Kills the dispatcher and loads it again from its store (C1.6).
    pub(super) fn reload(&mut self) {
        let bytes: Vec<Vec<u8>> = self.store.values().map(Record::to_bytes).collect();
        let records = bytes.iter().map(|bytes| Record::from_bytes(bytes).unwrap());
        let loaded = Dispatcher::load(self.config.clone(), records, BootId(99), self.now);
        assert!(
            loaded.state.tables.records() == self.machine.state.tables.records(),
            "the stored records differ from the machine's state"
        );
        assert_eq!(loaded.boot(), BootId(1));
        self.machine = loaded;
        self.settle();
    }

    pub(super) fn lease(&mut self, pick: usize, choice: u64) {
        let (repetitions, in_order) = (self.repetitions, self.is_in_order());
        for (session, task) in self.tasks_of(pick) {
            if self.is_draining(session) {
                continue;
            }
            let Some(state) = self.task(session, task) else {
                continue;
            };
            if state.finished || state.pass == repetitions || !state.splits.is_empty() {
                continue;
            }
            let request = Request::LeaseSplits {
                task,
                source: 0,
                repetition: state.pass,
                want: u32::try_from(choice % 16).unwrap() + 1,
                pace: self.poison_pace(),
                is_idle: true,
            };
            let reply = self.ask(session, Role::Worker, request);
            let Some(state) = self.task(session, task) else {
                continue;
            };
            // An error means that the task was taken away.
            if let Ok(Reply::Splits { runs, end, .. }) = reply {
                for run in runs.iter().filter(|_| in_order) {
                    // An ordered task gets ascending splits only (C5.9).
                    assert!(state.latest < Some((run.repetition, run.first_index)));
                    state.latest = Some((run.repetition, run.first_index + run.count - 1));
                }
                state.take(&runs);
                if end {
                    state.pass += 1;
                }
                self.read_suspect((session, task), pick, &runs);
                // If a worker dies before it has answered for a client that is gone, its held splits are in
                // doubt (C6.2).
                let row = self.machine.state.tables.tasks.get(&task);
                if row.is_some_and(|row| !row.releasing.is_empty()) {
                    self.excuse_held();
                }
            }
        }
    }

    pub(super) fn produce(&mut self, pick: usize) {
        if self.die_of_poison(pick) {
            return;
        }
        if let Some(worker) = picked(&mut self.workers, pick) {
            worker.tasks.values_mut().for_each(SimTask::produce);
        }
    }

    pub(super) fn deliver(&mut self, pick: usize, choice: u64) {
        let Some(worker) = picked(&mut self.workers, pick) else {
            return;
        };
        for (id, task) in &mut worker.tasks {
            let readers = self.clients.iter();
            let readers = readers.filter(|client| client.alive && client.tasks.contains(id));
            let readers: Vec<ClientId> = readers.map(|client| client.id).collect();
            if readers.is_empty() {
                continue;
            }
            let choice = usize::try_from(choice % 31).unwrap();
            task.send(readers[choice % readers.len()]);
            task.send_mark(readers[choice / 2 % readers.len()]);
        }
    }

    /// Delivers a worker's message to a client, which drops it if the task was removed.
    pub(super) fn arrive(&mut self, pick: usize, choice: u64) {
        let Some(worker) = picked(&mut self.workers, pick) else {
            return;
        };
        let choice = usize::try_from(choice % 31).unwrap();
        let Some(client) = picked(&mut self.clients, choice) else {
            return;
        };
        for (id, task) in &mut worker.tasks {
            if let Some(sent) = task.arrive(client.id)
                && client.tasks.contains(id)
            {
                client.receive(*id, sent);
                if let Sent::Element(element) = sent {
                    self.oracle.deliver(element.split, element.number);
                }
            }
        }
    }

    pub(super) fn report(&mut self, pick: usize) {
        let Some(client) = picked(&mut self.clients, pick) else {
            return;
        };
        let (session, id) = (client.session, client.id);
        for (task, leases) in std::mem::take(&mut client.to_report) {
            let leases = LeaseRange::collect(leases);
            let request = Request::SplitsDone {
                client: id,
                task,
                leases,
            };
            self.ask(session, Role::Read, request).ok();
        }
    }

    pub(super) fn acknowledge(&mut self, pick: usize) {
        let Some(client) = picked(&mut self.clients, pick) else {
            return;
        };
        let (session, id) = (client.session, client.id);
        for task in std::mem::take(&mut client.to_acknowledge) {
            let Some(client) = picked(&mut self.clients, pick) else {
                return;
            };
            let seen = client.seen.get(&task).cloned().unwrap_or_default();
            let of = |whole: bool| {
                let leases = seen.iter().filter(|(_, found)| **found == whole);
                LeaseRange::collect(leases.map(|(lease, _)| *lease))
            };
            let seen = Seen {
                complete: of(true),
                partial: of(false),
                ..Seen::default()
            };
            let request = Request::Acknowledge {
                client: id,
                task,
                seen,
            };
            self.ask(session, Role::Read, request).ok();
        }
    }

    /// Lets every client that was told of a removal acknowledge before the deadline of 8 s.
    pub(super) fn acknowledge_in_time(&mut self) {
        let waiting = |client: &SimClient| client.alive && !client.to_acknowledge.is_empty();
        if !self.clients.iter().any(waiting) {
            self.waiting_since = None;
        } else if self.now > *self.waiting_since.get_or_insert(self.now) + Duration::from_secs(6) {
            for pick in 0..CLIENTS_MAX {
                self.acknowledge(pick);
            }
        }
    }

    pub(super) fn finish(&mut self, pick: usize, delivered: bool) {
        let repetitions = self.repetitions;
        self.leave_drained(pick);
        for (session, task) in self.tasks_of(pick) {
            let draining = self.is_draining(session);
            let Some(state) = self.task(session, task) else {
                continue;
            };
            let cut_short = draining && state.pass < repetitions;
            if (state.pass < repetitions && !draining) || !state.splits.is_empty() {
                continue;
            }
            let delivered = delivered && state.is_delivered();
            if state.finished && (!delivered || state.delivered_told) {
                continue;
            }
            state.finished = true;
            state.delivered_told = delivered;
            let request = Request::FinishTask {
                task,
                delivered,
                exhausted: true,
                cut_short,
            };
            self.ask(session, Role::Worker, request).ok();
        }
    }

    /// Lets a client receive the end of tasks, and every element before the end.
    pub(super) fn drain_tasks(&mut self, pick: usize) {
        let Some(client) = picked(&mut self.clients, pick) else {
            return;
        };
        let (session, id) = (client.session, client.id);
        let tasks = self.workers.iter().filter(|worker| worker.alive);
        let over = tasks.flat_map(|worker| &worker.tasks);
        let over = over.filter(|(_, task)| task.is_drained_by(id)).map(|(id, _)| *id);
        let over: Vec<TaskId> = over
            .filter(|task| client.tasks.contains(task) && client.drained.insert(*task))
            .collect();
        for task in over {
            if self.machine.state.tables.clients.len() > 1 {
                self.excuse_held();
            }
            self.ask(session, Role::Read, Request::TaskDrained { client: id, task })
                .ok();
        }
    }

    pub(super) fn return_splits(&mut self, pick: usize) {
        for (session, task) in self.tasks_of(pick) {
            let Some(state) = self.task(session, task) else {
                continue;
            };
            let returned: Vec<u64> = state.splits.drain(..).map(|(_, lease)| lease).collect();
            let leases = LeaseRange::collect(returned);
            self.ask(session, Role::Worker, Request::ReturnSplits { task, leases })
                .ok();
        }
    }

    pub(super) fn tasks_of(&mut self, pick: usize) -> Vec<(SessionId, TaskId)> {
        match picked(&mut self.workers, pick) {
            Some(worker) if !worker.cut_off => {
                let session = worker.session;
                worker.tasks.keys().map(|task| (session, *task)).collect()
            }
            Some(_) | None => Vec::new(),
        }
    }

    pub(super) fn task(&mut self, session: SessionId, task: TaskId) -> Option<&mut SimTask> {
        let worker = self.workers.iter_mut().find(|worker| worker.session == session)?;
        worker.tasks.get_mut(&task)
    }
}

pub(super) trait Living {
    fn lives(&self) -> bool;
}

impl Living for SimWorker {
    fn lives(&self) -> bool {
        self.alive
    }
}

impl Living for SimClient {
    fn lives(&self) -> bool {
        self.alive
    }
}

pub(super) fn picked<T: Living>(all: &mut [T], pick: usize) -> Option<&mut T> {
    let mut living: Vec<&mut T> = all.iter_mut().filter(|actor| actor.lives()).collect();
    if living.is_empty() {
        return None;
    }
    let place = pick % living.len();
    Some(living.swap_remove(place))
}
