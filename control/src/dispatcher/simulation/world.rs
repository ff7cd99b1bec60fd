//! The simulated world: the machine, its store, time, and the connected processes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use millstream_link::{Role, TicketKey};

use super::actors::{Sent, SimClient, SimWorker};
use super::oracle::Oracle;
use crate::dispatcher::{
    Action, Change, ClientPush, Dispatcher, DispatcherConfig, Event, Incoming, Key, Moment, Phase, Record,
    Reply, ReplyToken, Request, WorkerPush, WorkerRegistration,
};
use crate::error::Error;
use crate::exactly_once::{ExactlyOnce, PoisonLimits};
use crate::id::{BootId, ClientId, DatasetId, JobId, RequestNumber, SessionId, TaskId};
use crate::job::{JobParameters, Policy};
use crate::planner::{Cardinality, DatasetFacts, SourcePlan, SplitPlan};
use crate::split::LeaseRange;
use crate::whereabouts::Whereabouts;

const WORKERS_MAX: usize = 4;
pub(super) const CLIENTS_MAX: usize = 3;
/// The maximum number of rounds after which an iteration must end once all processes behave.
const DRAIN_ROUNDS_MAX: usize = 2000;

pub(super) struct World {
    pub(super) machine: Dispatcher,
    pub(super) store: BTreeMap<Key, Record>,
    pub(super) config: DispatcherConfig,
    pub(super) now: Moment,
    pub(super) splits: u64,
    pub(super) repetitions: u64,
    /// The settings of an exactly-once job, in worlds with such a job.
    pub(super) once: Option<ExactlyOnce>,
    pub(super) job: JobId,
    pub(super) workers: Vec<SimWorker>,
    pub(super) clients: Vec<SimClient>,
    pub(super) oracle: Oracle,
    /// The splits that end each worker that begins them, and the number of these deaths.
    pub(super) poison: BTreeSet<u64>,
    pub(super) deaths: usize,
    pub(super) next_session: u64,
    pub(super) next_number: u64,
    /// The time since which some client has had a removal to acknowledge.
    pub(super) waiting_since: Option<Moment>,
    pub(super) replies: Vec<(ReplyToken, Result<Reply, Error>)>,
    pub(super) plans: Vec<crate::id::IterationId>,
    /// The clients that are gone and for which workers must still answer.
    pub(super) releases: Vec<(SessionId, ClientId, Vec<TaskId>)>,
}

impl World {
    pub(super) fn new(splits: u64, repetitions: u64) -> World {
        World::with(splits, repetitions, None)
    }

    /// Returns a world with an exactly-once job, which reads every second split and has one reader.
    pub(super) fn exact(splits: u64) -> World {
        let once = ExactlyOnce {
            files: None,
            quarantine: None,
            seed: 7,
            first: 1,
            step: 2,
            poison: PoisonLimits::default(),
        };
        World::with(splits, 1, Some(once))
    }

    pub(super) fn with(splits: u64, repetitions: u64, once: Option<ExactlyOnce>) -> World {
        let config = DispatcherConfig {
            client_timeout: Duration::from_secs(20),
            acknowledge_timeout: Duration::from_secs(8),
            job_gc_timeout: None,
            ..DispatcherConfig::default()
        };
        let machine = Dispatcher::new(config.clone(), BootId(1), Duration::ZERO);
        let mut world = World {
            machine,
            store: BTreeMap::new(),
            config,
            now: Duration::ZERO,
            splits,
            repetitions,
            oracle: Oracle::new(once.is_some()),
            once,
            job: JobId(0),
            workers: Vec::new(),
            clients: Vec::new(),
            poison: BTreeSet::new(),
            deaths: 0,
            next_session: 100,
            next_number: 1,
            waiting_since: None,
            replies: Vec::new(),
            plans: Vec::new(),
            releases: Vec::new(),
        };
        let facts = DatasetFacts {
            spec: vec![],
            cardinality: Cardinality::Finite(splits),
            splittable: Ok(()),
            aligned: Ok(()),
            not_by_files: None,
            has_shard_hint: false,
            compression: None,
        };
        let register = Request::RegisterDataset {
            id: None,
            definition: vec![],
            facts,
        };
        world.ask(SessionId(1), Role::Submit, register).unwrap();
        let parameters = JobParameters {
            in_order: world.is_in_order(),
            exactly_once: world.once.clone(),
            ..JobParameters::new(DatasetId::automatic(1000), Policy::Dynamic)
        };
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

    /// Returns whether readers take elements in the order of the splits, which holds for exactly-once jobs
    /// and in half of the other worlds.
    pub(super) fn is_in_order(&self) -> bool {
        self.once.is_some() || self.splits % 2 == 1
    }

    /// Lets all living processes behave until the iteration ends, and panics if it never does.
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
            self.answer_releases();
            for actor in 0..WORKERS_MAX.max(CLIENTS_MAX) {
                self.lease(actor, u64::MAX);
                self.produce(actor);
                for choice in 0..3 {
                    self.deliver(actor, choice);
                    self.arrive(actor, 0);
                    self.arrive(actor, 1);
                    self.arrive(actor, 2);
                }
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
        let (all, living) = (
            self.clients.iter(),
            self.clients.iter().filter(|client| client.alive),
        );
        if living.count() >= CLIENTS_MAX || (self.once.is_some() && all.len() > 0) {
            return;
        }
        let session = self.fresh_session();
        let request = Request::OpenIteration {
            job: self.job,
            repetition: 0,
            consumer: None,
            whereabouts: Whereabouts::default(),
        };
        let Ok(Reply::Client(id, _)) = self.ask(session, Role::Read, request) else {
            panic!("no client")
        };
        self.clients.push(SimClient::new(session, id));
        self.ask(session, Role::Read, Request::Attach { client: id })
            .unwrap();
    }

    pub(super) fn start_worker(&mut self, address: String) {
        let session = self.fresh_session();
        self.workers.push(SimWorker {
            session,
            address: address.clone(),
            alive: true,
            cut_off: false,
            draining: false,
            tasks: Default::default(),
        });
        let registration = WorkerRegistration {
            address,
            tags: vec![],
            ticket_key: TicketKey::from_bytes([7; 32]),
            version: String::new(),
            whereabouts: Whereabouts::default(),
            local_socket: None,
        };
        self.ask(session, Role::Worker, Request::RegisterWorker(registration))
            .unwrap();
    }

    /// Sends a request, and sometimes repeats it as if the answer were lost. A repetition must change
    /// nothing (C1.5).
    pub(super) fn ask(&mut self, session: SessionId, role: Role, request: Request) -> Result<Reply, Error> {
        let number = RequestNumber(self.next_number);
        self.next_number += 1;
        let first = self.ask_once(session, role, number, request.clone());
        // Attaching pushes a snapshot each time, and registering assigns again. Neither request changes a
        // record.
        let before = self.machine.state.tables.records();
        let again = self.ask_once(session, role, number, request);
        assert_eq!(
            before,
            self.machine.state.tables.records(),
            "a retry changed the state"
        );
        assert_eq!(
            format!("{first:?}"),
            format!("{again:?}"),
            "a retry was answered differently"
        );
        first
    }

    pub(super) fn ask_once(
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

    /// Stores changes and carries out actions until the machine has none left.
    pub(super) fn settle(&mut self) {
        while self.machine.has_batch() {
            let batch = self.machine.take_batch();
            self.keep(batch.changes);
            for action in batch.actions {
                self.carry_out(action);
            }
            for iteration in std::mem::take(&mut self.plans) {
                // The job reads every `step`-th split, and these are the splits of the world.
                let splits = self.splits * self.once.as_ref().map_or(1, |once| once.step);
                let plan = SplitPlan {
                    sources: vec![SourcePlan::Counted { splits }],
                    seed: 0,
                };
                let event = Event::SplitsPlanned {
                    iteration,
                    result: Ok(plan),
                };
                self.machine.handle(event, self.now);
            }
        }
    }

    fn keep(&mut self, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::Put(record) => self.store.insert(record.key(), record),
                Change::Delete(key) => self.store.remove(&key),
            };
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Reply { token, result } => self.replies.push((token, result)),
            // The simulation has no ports, so only silence shows a death.
            Action::ProbeWorker { .. } => {}
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

    pub(super) fn tell_client(&mut self, id: ClientId, push: ClientPush) {
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
                client.tasks = snapshot.tasks.iter().map(|task| task.task).collect();
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
            | ClientPush::TaskEnded { .. }
            | ClientPush::TaskScheduled { .. }
            | ClientPush::TaskConcluded(_)
            | ClientPush::ConsumersLost { .. }
            | ClientPush::SplitsLost { .. }
            | ClientPush::WorkersLost { .. }
            | ClientPush::ShutDown { .. } => {}
        }
    }

    pub(super) fn lapse(&mut self, id: ClientId) {
        let Some(client) = self.clients.iter_mut().find(|client| client.id == id) else {
            return;
        };
        client.alive = false;
        // Elements in flight to the client are lost with it.
        for state in self
            .workers
            .iter_mut()
            .flat_map(|worker| worker.tasks.values_mut())
        {
            let in_flight = state.in_flight.iter().filter(|(to, _)| *to == id);
            self.oracle
                .excused
                .extend(in_flight.filter_map(|(_, sent)| match sent {
                    Sent::Element(element) => Some(element.split),
                    Sent::Whole(_) => None,
                }));
            state.miss(id);
        }
    }

    /// Lets workers report the splits that released clients held (C6.7).
    pub(super) fn answer_releases(&mut self) {
        for (session, client, tasks) in std::mem::take(&mut self.releases) {
            for task in tasks {
                let leases = self.task(session, task).map(|state| {
                    state.miss(client);
                    state.missed.remove(&client).unwrap_or_default()
                });
                let Some(leases) = leases else {
                    continue;
                };
                let request = Request::SplitsMissed(task, client, LeaseRange::collect(leases), true);
                // The request is refused if the worker was given up meanwhile.
                self.ask(session, Role::Worker, request).ok();
            }
        }
    }

    /// Notes that all held splits may be lost from now on although no client saw them.
    pub(super) fn excuse_held(&mut self) {
        let tables = &self.machine.state.tables;
        let of_tasks = tables
            .books
            .holders()
            .filter_map(|task| tables.books.holding(*task));
        let held = of_tasks.chain(tables.removals.values().map(|removal| &removal.holding));
        let splits = held.flat_map(|holding| holding.runs()).map(|run| run.splits());
        let names = splits.flat_map(|range| {
            (range.first..range.first + range.count).map(move |index| (range.repetition, index))
        });
        self.oracle.excused.extend(names);
    }

    pub(super) fn tell_worker(&mut self, session: SessionId, push: &WorkerPush) {
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
            WorkerPush::Release { client, tasks } => {
                self.releases.push((session, *client, tasks.clone()));
            }
            WorkerPush::ShutDown { .. } => {}
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        let status = self.machine.status();
        status
            .iterations
            .first()
            .is_some_and(|iteration| iteration.phase == Phase::Finished)
    }

    pub(super) fn fresh_session(&mut self) -> SessionId {
        self.next_session += 1;
        SessionId(self.next_session)
    }
}
