//! A test rig around the state machine, which sends requests, answers plans, and collects the actions.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_link::{Role, TicketKey};

use crate::dispatcher::{
    Action, Change, ClientPush, Dispatcher, DispatcherConfig, Event, FailureReport, Incoming, Key, Moment,
    Record, Reply, ReplyToken, Request, Run, WorkerPush, WorkerRegistration,
};
use crate::error::Error;
use crate::id::{
    BootId, ClientId, DatasetId, IterationId, JobId, RequestNumber, SessionId, TaskId, WorkerId,
};
use crate::job::{JobParameters, Policy};
use crate::planner::{Cardinality, DatasetFacts, PlanError, SourcePlan, SplitPlan};
use crate::split::SplitPace;
use crate::whereabouts::Whereabouts;

pub(super) const READER: SessionId = SessionId(10);

/// The liveness limit: a worker is dead after about six seconds of silence.
pub(super) const LIVENESS: Duration = Duration::from_millis(1900);

pub(super) struct Rig {
    pub(super) machine: Dispatcher,
    /// The records that a store would hold.
    pub(super) store: BTreeMap<Key, Record>,
    pub(super) now: Moment,
    pub(super) plan: Result<SplitPlan, PlanError>,
    /// True if the rig answers requests for plans at once.
    pub(super) plans_itself: bool,
    pub(super) planning: Vec<IterationId>,
    pub(super) replies: Vec<(ReplyToken, Result<Reply, Error>)>,
    pub(super) client_pushes: Vec<(ClientId, ClientPush)>,
    pub(super) worker_pushes: Vec<(SessionId, WorkerPush)>,
    pub(super) disconnected: Vec<SessionId>,
    /// The workers whose ports the machine asked to probe.
    pub(super) probed: Vec<WorkerId>,
    releases: Vec<(SessionId, ClientId, TaskId)>,
    /// True if the rig's workers report at once that released clients held no splits.
    pub(super) answers_releases: bool,
    next: u64,
}

impl Rig {
    pub(super) fn new() -> Rig {
        Rig::with(DispatcherConfig::default())
    }

    pub(super) fn with(config: DispatcherConfig) -> Rig {
        let config = DispatcherConfig {
            liveness: LIVENESS,
            ..config
        };
        Rig {
            machine: Dispatcher::new(config, BootId(1), Duration::ZERO),
            store: BTreeMap::new(),
            now: Duration::ZERO,
            plan: Ok(SplitPlan {
                sources: vec![SourcePlan::Counted { splits: 100 }],
                seed: 0,
            }),
            plans_itself: true,
            planning: vec![],
            replies: vec![],
            client_pushes: vec![],
            worker_pushes: vec![],
            disconnected: vec![],
            probed: vec![],
            releases: vec![],
            answers_releases: true,
            next: 1,
        }
    }

    pub(super) fn ask(&mut self, session: SessionId, role: Role, request: Request) -> Result<Reply, Error> {
        let number = self.send(session, role, request);
        self.reply(number).expect("answered at once")
    }

    pub(super) fn send(&mut self, session: SessionId, role: Role, request: Request) -> u64 {
        let number = self.next;
        self.next += 1;
        self.send_numbered(session, role, request, number, number);
        number
    }

    /// Sends a request with this number, with all requests below `settled_below` settled. The reply token
    /// equals the request number.
    pub(super) fn send_numbered(
        &mut self,
        session: SessionId,
        role: Role,
        request: Request,
        number: u64,
        settled_below: u64,
    ) {
        self.event(asked(session, role, request, number, settled_below));
    }

    /// Sends a request, and lets the dispatcher die before the store has the changes. The dispatcher starts
    /// again from its stored records. Returns the number of the request.
    pub(super) fn die_before_commit(&mut self, session: SessionId, role: Role, request: Request) -> u64 {
        let number = self.next;
        self.next += 1;
        self.machine
            .handle(asked(session, role, request, number, number), self.now);
        let batch = self.machine.take_batch();
        let is_answer =
            |action: &Action| matches!(action, Action::Reply { token, .. } if *token == ReplyToken(number));
        // Nobody carries out the actions of a batch before the store has its changes.
        assert!(
            !batch.changes.is_empty() && batch.actions.iter().any(is_answer),
            "the answer depends on a change"
        );
        self.restart();
        number
    }

    pub(super) fn reply(&mut self, token: u64) -> Option<Result<Reply, Error>> {
        let found = self
            .replies
            .iter()
            .position(|(answered, _)| *answered == ReplyToken(token))?;
        Some(self.replies.remove(found).1)
    }

    pub(super) fn event(&mut self, event: Event) {
        self.handle(event);
        if self.answers_releases {
            for (session, client, task) in std::mem::take(&mut self.releases) {
                self.ask(session, Role::Worker, nothing_missed(client, task)).ok();
            }
        }
    }

    fn handle(&mut self, event: Event) {
        self.machine.handle(event, self.now);
        while self.machine.has_batch() {
            let batch = self.machine.take_batch();
            for change in batch.changes {
                match change {
                    Change::Put(record) => self.store.insert(record.key(), record),
                    Change::Delete(key) => self.store.remove(&key),
                };
            }
            for action in batch.actions {
                match action {
                    Action::Reply { token, result } => self.replies.push((token, result)),
                    Action::PushClient { client, push, .. } => self.client_pushes.push((client, push)),
                    Action::PushWorker { session, push } => {
                        if let WorkerPush::Release { client, tasks } = &push {
                            let asked = tasks.iter().map(|task| (session, *client, *task));
                            self.releases.extend(asked);
                        }
                        self.worker_pushes.push((session, push));
                    }
                    Action::ProbeWorker { worker, .. } => self.probed.push(worker),
                    Action::PlanSplits { iteration, .. } => self.planning.push(iteration),
                    Action::Disconnect { session, .. } => self.disconnected.push(session),
                }
            }
            if self.plans_itself {
                for iteration in std::mem::take(&mut self.planning) {
                    let result = self.plan.clone();
                    self.machine
                        .handle(Event::SplitsPlanned { iteration, result }, self.now);
                }
            }
        }
    }

    /// Kills the dispatcher and starts it again from its stored records.
    pub(super) fn restart(&mut self) {
        let config = self.machine.config().clone();
        let records = self.store.values().cloned();
        self.machine = Dispatcher::load(config, records, BootId(2), self.now);
    }

    /// Lets time pass while these workers and clients send heartbeats.
    pub(super) fn pass(&mut self, seconds: u64, workers: &[SessionId], clients: &[ClientId]) {
        for _ in 0..seconds * 2 {
            self.pass_half(workers, clients);
        }
    }

    /// Lets half a second pass.
    pub(super) fn pass_half(&mut self, workers: &[SessionId], clients: &[ClientId]) {
        self.now += Duration::from_millis(500);
        for session in workers {
            self.event(Event::Heartbeat {
                session: *session,
                worker: true,
                clients: vec![],
            });
        }
        let clients = clients.to_vec();
        self.event(Event::Heartbeat {
            session: READER,
            worker: false,
            clients,
        });
        self.event(Event::Woken);
    }

    pub(super) fn register(&mut self, id: Option<&str>, facts: DatasetFacts) -> Result<DatasetId, Error> {
        let id = id.map(|id| DatasetId::new(id).unwrap());
        let request = Request::RegisterDataset {
            id,
            definition: b"graph".to_vec(),
            facts,
        };
        let reply = self.ask(READER, Role::Submit, request)?;
        let Reply::Dataset(id) = reply else {
            panic!("{reply:?}")
        };
        Ok(id)
    }

    pub(super) fn job(&mut self, name: Option<&str>, parameters: JobParameters) -> Result<JobId, Error> {
        let name = name.map(str::to_owned);
        let reply = self.ask(READER, Role::Read, Request::CreateJob { name, parameters })?;
        let Reply::Job(id) = reply else {
            panic!("{reply:?}")
        };
        Ok(id)
    }

    /// Creates a job without a name on a new dataset.
    pub(super) fn any_job(&mut self, policy: Policy) -> JobId {
        let dataset = self.register(None, facts()).unwrap();
        self.job(None, JobParameters::new(dataset, policy)).unwrap()
    }

    pub(super) fn client(&mut self, job: JobId) -> ClientId {
        let reply = self.ask(READER, Role::Read, open(job));
        let Ok(Reply::Client(id, _)) = reply else {
            panic!("{reply:?}")
        };
        id
    }

    pub(super) fn worker(&mut self, session: u64, address: &str) -> SessionId {
        self.register_worker(session, address).unwrap();
        SessionId(session)
    }

    pub(super) fn register_worker(&mut self, session: u64, address: &str) -> Result<Reply, Error> {
        let session = SessionId(session);
        let registration = WorkerRegistration {
            address: address.to_owned(),
            tags: vec![],
            ticket_key: TicketKey::from_bytes([1; 32]),
            version: "1".to_owned(),
            whereabouts: Whereabouts::default(),
            local_socket: None,
        };
        self.ask(session, Role::Worker, Request::RegisterWorker(registration))
    }

    /// Returns all tasks that this worker was ever told to start.
    pub(super) fn tasks(&self, session: SessionId) -> Vec<TaskId> {
        let mine = self.worker_pushes.iter().filter(|(to, _)| *to == session);
        mine.filter_map(|(_, push)| match push {
            WorkerPush::Start { task } => Some(*task),
            WorkerPush::Assigned { .. }
            | WorkerPush::Stop { .. }
            | WorkerPush::Release { .. }
            | WorkerPush::ShutDown { .. } => None,
        })
        .collect()
    }

    /// Finishes a task whose elements are all delivered. Under `dynamic` its clients report the end as
    /// well.
    pub(super) fn finish(&mut self, session: SessionId, task: TaskId) {
        self.drain_task(task);
        let request = Request::FinishTask {
            task,
            delivered: true,
            exhausted: true,
            cut_short: false,
        };
        self.ask(session, Role::Worker, request).unwrap();
    }

    /// Lets the clients of a task under `dynamic` report its end.
    pub(super) fn drain_task(&mut self, task: TaskId) {
        let row = self.machine.state.tables.tasks.get(&task).cloned();
        let row = row.filter(|_| self.machine.state.tables.books.holding(task).is_some());
        for client in row
            .map(|row| self.machine.state.tables.readers(&row))
            .unwrap_or_default()
        {
            let session = self.machine.state.tables.clients.get(&client).unwrap().session;
            self.ask(session, Role::Read, Request::TaskDrained { client, task })
                .unwrap();
        }
    }

    pub(super) fn lease(&mut self, session: SessionId, task: TaskId) -> Result<(u64, bool), Error> {
        let answer = self.lease_wanted(session, SplitsWanted::by(task))?;
        Ok((answer.count(), answer.end))
    }

    pub(super) fn lease_wanted(
        &mut self,
        session: SessionId,
        wanted: SplitsWanted,
    ) -> Result<SplitsAnswer, Error> {
        let reply = self.ask(session, Role::Worker, wanted.into())?;
        let Reply::Splits {
            runs,
            end,
            current,
            more,
            ..
        } = reply
        else {
            panic!("{reply:?}")
        };
        Ok(SplitsAnswer {
            runs,
            end,
            current,
            more,
        })
    }

    pub(super) fn told(&self, wanted: &ClientPush) -> usize {
        self.client_pushes
            .iter()
            .filter(|(_, push)| push == wanted)
            .count()
    }
}

/// A request for splits.
#[derive(Clone, Copy)]
pub(super) struct SplitsWanted {
    pub(super) task: TaskId,
    pub(super) source: u32,
    pub(super) repetition: u64,
    pub(super) want: u32,
    pub(super) pace: Option<SplitPace>,
    pub(super) is_idle: bool,
}

impl SplitsWanted {
    /// Returns the request of an idle task without a pace, which wants many splits of the first source.
    pub(super) fn by(task: TaskId) -> SplitsWanted {
        SplitsWanted {
            task,
            source: 0,
            repetition: 0,
            want: 1000,
            pace: None,
            is_idle: true,
        }
    }
}

impl From<SplitsWanted> for Request {
    fn from(wanted: SplitsWanted) -> Request {
        Request::LeaseSplits {
            task: wanted.task,
            source: wanted.source,
            repetition: wanted.repetition,
            want: wanted.want,
            pace: wanted.pace,
            is_idle: wanted.is_idle,
        }
    }
}

/// The answer to a request for splits.
pub(super) struct SplitsAnswer {
    pub(super) runs: Vec<Run>,
    pub(super) end: bool,
    pub(super) current: u64,
    pub(super) more: bool,
}

impl SplitsAnswer {
    /// Returns the number of splits.
    pub(super) fn count(&self) -> u64 {
        self.runs.iter().map(|run| run.count).sum()
    }
}

/// Returns the arrival of a request. The reply token equals the request number.
fn asked(session: SessionId, role: Role, request: Request, number: u64, settled_below: u64) -> Event {
    Event::Asked(Incoming {
        token: ReplyToken(number),
        session,
        role,
        number: Some(RequestNumber(number)),
        settled_below: RequestNumber(settled_below),
        request,
    })
}

/// Returns the report that a task failed, at no single element.
pub(super) fn failed(task: TaskId, message: &str) -> Request {
    let report = FailureReport::new(message);
    Request::FailTask { task, report }
}

pub(super) fn open(job: JobId) -> Request {
    Request::OpenIteration {
        job,
        repetition: 0,
        consumer: None,
        whereabouts: Whereabouts::default(),
    }
}

fn nothing_missed(client: ClientId, task: TaskId) -> Request {
    Request::SplitsMissed(task, client, vec![], true)
}

pub(super) fn facts() -> DatasetFacts {
    DatasetFacts {
        spec: vec![1],
        cardinality: Cardinality::Finite(100),
        splittable: Ok(()),
        aligned: Ok(()),
        not_by_files: None,
        has_shard_hint: false,
        compression: None,
    }
}
