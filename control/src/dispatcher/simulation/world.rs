//! The machine, its store, time, and whoever is connected.

use std::collections::BTreeSet;
use std::time::Duration;

use millstream_link::{Role, TicketKey};

use super::actors::{SimClient, SimTask, SimWorker};
use super::oracle::Oracle;
use crate::dispatcher::{
    Action, ClientPush, Dispatcher, DispatcherConfig, Event, Incoming, Moment, Phase, Reply, ReplyToken,
    Request, WorkerPush, WorkerRegistration,
};
use crate::error::Error;
use crate::id::{BootId, ClientId, DatasetId, JobId, RequestNumber, SessionId, TaskId};
use crate::job::{JobParameters, Policy};
use crate::planner::{Cardinality, DatasetFacts, SourcePlan, SplitPlan};
use crate::split::{LeaseRange, Seen};
use crate::store::{MemoryStore, Store};

const WORKERS_MAX: usize = 4;
const CLIENTS_MAX: usize = 3;
/// Rounds in which an iteration must end once everybody behaves.
const DRAIN_ROUNDS_MAX: usize = 2000;

pub(super) struct World {
    machine: Dispatcher,
    store: MemoryStore,
    config: DispatcherConfig,
    now: Moment,
    splits: u64,
    repetitions: u64,
    job: JobId,
    workers: Vec<SimWorker>,
    clients: Vec<SimClient>,
    oracle: Oracle,
    next_session: u64,
    next_number: u64,
    /// Since when some client has a removal to acknowledge.
    waiting_since: Option<Moment>,
    replies: Vec<(ReplyToken, Result<Reply, Error>)>,
    plans: Vec<crate::id::IterationId>,
}

impl World {
    pub(super) fn new(splits: u64, repetitions: u64) -> World {
        let config = DispatcherConfig {
            client_timeout: Duration::from_secs(20),
            acknowledge_timeout: Duration::from_secs(8),
            gc_timeout: None,
            ..DispatcherConfig::default()
        };
        let machine = Dispatcher::new(config.clone(), BootId(1), Duration::ZERO);
        let mut world = World {
            machine,
            store: MemoryStore::keeping(),
            config,
            now: Duration::ZERO,
            splits,
            repetitions,
            job: JobId(0),
            workers: Vec::new(),
            clients: Vec::new(),
            oracle: Oracle::default(),
            next_session: 100,
            next_number: 1,
            waiting_since: None,
            replies: Vec::new(),
            plans: Vec::new(),
        };
        let facts = DatasetFacts {
            spec: vec![],
            cardinality: Cardinality::Finite(splits),
            splittable: Ok(()),
            aligned: Ok(()),
        };
        let register = Request::RegisterDataset {
            id: None,
            definition: vec![],
            facts,
        };
        world.ask(SessionId(1), Role::Submit, register).unwrap();
        let parameters = JobParameters::new(DatasetId::automatic(1000), Policy::Dynamic);
        let create = Request::CreateJob {
            name: None,
            parameters,
        };
        let Ok(Reply::Job(job)) = world.ask(SessionId(1), Role::Submit, create) else {
            panic!("no job")
        };
        world.job = job;
        world
    }

    /// Something happens.
    pub(super) fn step(&mut self, op: u8, choice: u64) {
        let pick = usize::try_from(choice % 97).unwrap();
        match op {
            0 => self.kill_worker(pick),
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
            20..=25 => self.deliver(pick, choice),
            26 | 27 => self.report(pick),
            28 => self.acknowledge(pick),
            29 => self.finish(pick, choice.is_multiple_of(2)),
            30 => self.drain_tasks(pick),
            _ => self.return_splits(pick),
        }
    }

    /// Everybody who lives behaves; the iteration must end.
    pub(super) fn drain(&mut self) {
        for worker in self.workers.iter_mut().filter(|worker| worker.cut_off) {
            worker.alive = false;
            worker.tasks.clear();
        }
        let deaf: Vec<ClientId> = self
            .clients
            .iter()
            .filter(|client| client.alive && client.deaf)
            .map(|client| client.id)
            .collect();
        for client in deaf {
            self.reconnect(client);
        }
        for _ in 0..DRAIN_ROUNDS_MAX {
            if !self.clients.iter().any(|client| client.alive) {
                self.add_client();
            }
            if !self.workers.iter().any(|worker| worker.alive) {
                self.add_worker();
            }
            if self.is_finished() {
                return;
            }
            for actor in 0..WORKERS_MAX.max(CLIENTS_MAX) {
                self.lease(actor, u64::MAX);
                self.produce(actor);
                self.deliver(actor, 0);
                self.deliver(actor, 1);
                self.deliver(actor, 2);
                self.report(actor);
                self.acknowledge(actor);
                self.finish(actor, actor % 2 == 0);
                self.drain_tasks(actor);
            }
            self.pass(Duration::from_millis(300));
        }
        panic!("the iteration never ends: {:#?}", self.machine.status());
    }

    pub(super) fn check_end(&mut self) {
        let status = self.machine.status();
        let iteration = &status.iterations[0];
        let mut lost = BTreeSet::new();
        for range in &iteration.lost {
            for index in range.first..range.first + range.count {
                assert!(lost.insert((range.repetition, index)), "lost twice");
            }
        }
        self.oracle.check(self.splits, self.repetitions, &lost);
        assert_eq!(iteration.splits_leased, 0);
        assert_eq!(
            iteration.splits_done + iteration.splits_lost,
            self.splits * self.repetitions
        );
        assert_eq!(status.counts.tasks, 0);
        for client in self.clients.iter().filter(|client| client.alive) {
            assert!(client.finished, "a client was not told of the end");
        }
    }

    pub(super) fn lost(&self) -> u64 {
        self.machine.status().iterations[0].splits_lost
    }

    pub(super) fn add_worker(&mut self) {
        if self.workers.iter().filter(|worker| worker.alive).count() < WORKERS_MAX {
            let address = format!("worker-{}", self.workers.len());
            self.start_worker(address);
        }
    }

    pub(super) fn add_client(&mut self) {
        if self.clients.iter().filter(|client| client.alive).count() >= CLIENTS_MAX {
            return;
        }
        let session = self.fresh_session();
        let request = Request::OpenIteration {
            job: self.job,
            repetition: 0,
        };
        let Ok(Reply::Client(id)) = self.ask(session, Role::Read, request) else {
            panic!("no client")
        };
        self.clients.push(SimClient::new(session, id));
        self.ask(session, Role::Read, Request::Attach { client: id })
            .unwrap();
    }

    fn start_worker(&mut self, address: String) {
        let session = self.fresh_session();
        self.workers.push(SimWorker {
            session,
            address: address.clone(),
            alive: true,
            cut_off: false,
            tasks: Default::default(),
        });
        let registration = WorkerRegistration {
            address,
            tags: vec![],
            ticket_key: TicketKey::from_bytes([7; 32]),
            version: String::new(),
        };
        self.ask(session, Role::Worker, Request::RegisterWorker(registration))
            .unwrap();
    }

    fn kill_worker(&mut self, pick: usize) {
        if let Some(worker) = picked(&mut self.workers, pick) {
            worker.alive = false;
            worker.tasks.clear();
        }
    }

    fn restart_worker(&mut self, pick: usize) {
        let Some(worker) = picked(&mut self.workers, pick) else {
            return;
        };
        let address = worker.address.clone();
        self.kill_worker(pick);
        self.start_worker(address);
    }

    fn cut_off_worker(&mut self, pick: usize) {
        if let Some(worker) = picked(&mut self.workers, pick) {
            worker.cut_off = true;
        }
    }

    fn end_client(&mut self, pick: usize, gracefully: bool) {
        let Some(client) = picked(&mut self.clients, pick) else {
            return;
        };
        client.alive = false;
        let (session, id) = (client.session, client.id);
        self.oracle.uncertain = true;
        if gracefully {
            self.ask(session, Role::Read, Request::Release { client: id })
                .ok();
        }
    }

    fn toggle_deaf(&mut self, pick: usize) {
        let Some(client) = picked(&mut self.clients, pick) else {
            return;
        };
        if client.deaf {
            let id = client.id;
            return self.reconnect(id);
        }
        client.deaf = true;
        // It may not hear of a removal before the deadline.
        self.oracle.uncertain = true;
    }

    fn reconnect(&mut self, id: ClientId) {
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

    /// Time passes, in steps in which whoever lives says so.
    fn pass(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.now < end {
            self.now = (self.now + Duration::from_millis(500)).min(end);
            self.acknowledge_in_time();
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

    /// The dispatcher dies and comes back from its store (C1.6).
    fn reload(&mut self) {
        let records = self.store.load().unwrap();
        let bytes: Vec<Vec<u8>> = records.iter().map(crate::dispatcher::Record::to_bytes).collect();
        let records = bytes
            .iter()
            .map(|bytes| crate::dispatcher::Record::from_bytes(bytes).unwrap());
        let loaded = Dispatcher::load(self.config.clone(), records, BootId(99), self.now);
        assert!(
            loaded.tables == self.machine.tables,
            "what was stored is not what the machine knows"
        );
        assert_eq!(loaded.boot(), BootId(1));
        self.machine = loaded;
        self.settle();
    }

    fn lease(&mut self, pick: usize, choice: u64) {
        let repetitions = self.repetitions;
        for (session, task) in self.tasks_of(pick) {
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
            };
            let reply = self.ask(session, Role::Worker, request);
            let Some(state) = self.task(session, task) else {
                continue;
            };
            // Otherwise the task was taken away.
            if let Ok(Reply::Splits { runs, end, .. }) = reply {
                state.take(&runs);
                if end {
                    state.pass += 1;
                }
            }
        }
    }

    fn produce(&mut self, pick: usize) {
        if let Some(worker) = picked(&mut self.workers, pick) {
            worker.tasks.values_mut().for_each(SimTask::produce);
        }
    }

    fn deliver(&mut self, pick: usize, choice: u64) {
        let Some(worker) = picked(&mut self.workers, pick) else {
            return;
        };
        for (id, task) in &mut worker.tasks {
            let mut readers: Vec<&mut SimClient> = self
                .clients
                .iter_mut()
                .filter(|client| client.alive && client.tasks.contains(id))
                .collect();
            if readers.is_empty() {
                continue;
            }
            let reader = usize::try_from(choice % 31).unwrap() % readers.len();
            if let Some(element) = task.buffer.pop_front() {
                readers[reader].receive(*id, element);
                self.oracle.deliver(element.split, element.number);
            }
        }
    }

    fn report(&mut self, pick: usize) {
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

    fn acknowledge(&mut self, pick: usize) {
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
            };
            let request = Request::Acknowledge {
                client: id,
                task,
                seen,
            };
            self.ask(session, Role::Read, request).ok();
        }
    }

    /// Who hears of a removal answers before its deadline, 8 s.
    fn acknowledge_in_time(&mut self) {
        let waiting = |client: &SimClient| client.alive && !client.to_acknowledge.is_empty();
        if !self.clients.iter().any(waiting) {
            self.waiting_since = None;
        } else if self.now > *self.waiting_since.get_or_insert(self.now) + Duration::from_secs(6) {
            for pick in 0..CLIENTS_MAX {
                self.acknowledge(pick);
            }
        }
    }

    fn finish(&mut self, pick: usize, delivered: bool) {
        let repetitions = self.repetitions;
        for (session, task) in self.tasks_of(pick) {
            let Some(state) = self.task(session, task) else {
                continue;
            };
            if state.pass < repetitions || !state.splits.is_empty() {
                continue;
            }
            let delivered = delivered && state.buffer.is_empty();
            if state.finished && (!delivered || state.delivered_told) {
                continue;
            }
            state.finished = true;
            state.delivered_told = delivered;
            let request = Request::FinishTask {
                task,
                delivered,
                exhausted: true,
            };
            self.ask(session, Role::Worker, request).ok();
        }
    }

    /// A client has received the end of tasks, and everything before it.
    fn drain_tasks(&mut self, pick: usize) {
        let over: Vec<TaskId> = self
            .workers
            .iter()
            .filter(|worker| worker.alive)
            .flat_map(|worker| &worker.tasks)
            .filter(|(_, task)| task.finished && task.buffer.is_empty())
            .map(|(id, _)| *id)
            .collect();
        let Some(client) = picked(&mut self.clients, pick) else {
            return;
        };
        let (session, id) = (client.session, client.id);
        let fresh: Vec<TaskId> = over
            .into_iter()
            .filter(|task| client.tasks.contains(task) && client.drained.insert(*task))
            .collect();
        for task in fresh {
            self.ask(session, Role::Read, Request::TaskDrained { client: id, task })
                .ok();
        }
    }

    fn return_splits(&mut self, pick: usize) {
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

    /// Asks, and sometimes asks again as if the answer were lost: nothing may change by it (C1.5).
    fn ask(&mut self, session: SessionId, role: Role, request: Request) -> Result<Reply, Error> {
        let number = RequestNumber(self.next_number);
        self.next_number += 1;
        let first = self.ask_once(session, role, number, request.clone());
        // Attaching is answered with a push each time; registering assigns anew: neither changes a record.
        let before = format!("{:?}", self.machine.tables);
        let again = self.ask_once(session, role, number, request);
        assert_eq!(
            before,
            format!("{:?}", self.machine.tables),
            "a retry changed the state"
        );
        assert_eq!(
            format!("{first:?}"),
            format!("{again:?}"),
            "a retry was answered differently"
        );
        first
    }

    fn ask_once(
        &mut self,
        session: SessionId,
        role: Role,
        number: RequestNumber,
        request: Request,
    ) -> Result<Reply, Error> {
        let token = ReplyToken(number.0);
        let incoming = Incoming {
            token,
            session,
            role,
            number: Some(number),
            settled_below: number,
            request,
        };
        self.machine.handle(Event::Asked(incoming), self.now);
        self.settle();
        let found = self.replies.iter().position(|(answered, _)| *answered == token);
        self.replies
            .swap_remove(found.expect("every request is answered"))
            .1
    }

    /// Stores and carries out, until the machine is at rest.
    fn settle(&mut self) {
        while self.machine.has_batch() {
            let batch = self.machine.take_batch();
            self.store.commit(batch.changes).unwrap();
            for action in batch.actions {
                self.carry_out(action);
            }
            for iteration in std::mem::take(&mut self.plans) {
                let plan = SplitPlan {
                    sources: vec![SourcePlan::Counted { splits: self.splits }],
                };
                let event = Event::SplitsPlanned {
                    iteration,
                    result: Ok(plan),
                };
                self.machine.handle(event, self.now);
            }
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Reply { token, result } => self.replies.push((token, result)),
            Action::PlanSplits { iteration, .. } => self.plans.push(iteration),
            Action::PushClient { client, push, .. } => self.tell_client(client, push),
            Action::PushWorker { session, push } => self.tell_worker(session, &push),
            Action::Disconnect { session, .. } => {
                if let Some(worker) = self.workers.iter_mut().find(|worker| worker.session == session)
                    && !worker.cut_off
                {
                    worker.alive = false;
                    worker.tasks.clear();
                }
            }
        }
    }

    fn tell_client(&mut self, id: ClientId, push: ClientPush) {
        let Some(client) = self
            .clients
            .iter_mut()
            .find(|client| client.id == id && client.alive)
        else {
            return;
        };
        if client.deaf {
            return;
        }
        match push {
            ClientPush::Snapshot(snapshot) => {
                client.tasks.extend(snapshot.tasks.iter().map(|task| task.task));
                client.finished |= snapshot.finished;
                for removed in snapshot.removed {
                    client.tasks.remove(&removed.task);
                    client.to_acknowledge.insert(removed.task);
                }
            }
            ClientPush::TaskAdded(task) => {
                client.tasks.insert(task.task);
            }
            ClientPush::TaskRemoved(removed) => {
                client.tasks.remove(&removed.task);
                client.to_acknowledge.insert(removed.task);
            }
            ClientPush::IterationFinished { .. } => client.finished = true,
            ClientPush::Lapsed => self.lapse(id),
            ClientPush::TaskFailed { .. }
            | ClientPush::SplitsLost { .. }
            | ClientPush::WorkersLost { .. } => {}
        }
    }

    fn lapse(&mut self, id: ClientId) {
        if let Some(client) = self.clients.iter_mut().find(|client| client.id == id) {
            client.alive = false;
            self.oracle.uncertain = true;
        }
    }

    fn tell_worker(&mut self, session: SessionId, push: &WorkerPush) {
        let worker = self.workers.iter_mut().find(|worker| worker.session == session);
        let Some(worker) = worker.filter(|worker| worker.alive && !worker.cut_off) else {
            return;
        };
        match push {
            WorkerPush::Assigned { tasks } => {
                worker.tasks.retain(|task, _| tasks.contains(task));
                for task in tasks {
                    worker.tasks.entry(*task).or_default();
                }
            }
            WorkerPush::Start { task } => {
                worker.tasks.entry(*task).or_default();
            }
            WorkerPush::Stop { task, .. } => {
                worker.tasks.remove(task);
            }
        }
    }

    fn is_finished(&self) -> bool {
        let status = self.machine.status();
        status
            .iterations
            .first()
            .is_some_and(|iteration| iteration.phase == Phase::Finished)
    }

    fn tasks_of(&mut self, pick: usize) -> Vec<(SessionId, TaskId)> {
        match picked(&mut self.workers, pick) {
            Some(worker) if !worker.cut_off => {
                let session = worker.session;
                worker.tasks.keys().map(|task| (session, *task)).collect()
            }
            Some(_) | None => Vec::new(),
        }
    }

    fn task(&mut self, session: SessionId, task: TaskId) -> Option<&mut SimTask> {
        let worker = self.workers.iter_mut().find(|worker| worker.session == session)?;
        worker.tasks.get_mut(&task)
    }

    fn fresh_session(&mut self) -> SessionId {
        self.next_session += 1;
        SessionId(self.next_session)
    }
}

trait Living {
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

fn picked<T: Living>(all: &mut [T], pick: usize) -> Option<&mut T> {
    let mut living: Vec<&mut T> = all.iter_mut().filter(|actor| actor.lives()).collect();
    if living.is_empty() {
        return None;
    }
    let place = pick % living.len();
    Some(living.swap_remove(place))
}
