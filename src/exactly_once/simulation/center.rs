//! The dispatcher's process: the real state machine, its store, and its loop with commits and crashes.
//!
//! Decides nothing about splits, which only the state machine does.

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_control::{
    Action, Batch, BootId, Cardinality, Change, ClientId, DatasetFacts, DatasetId, Dispatcher,
    DispatcherConfig, Event as Input, Incoming, IterationId, Key, Moment, Record, ReplyToken, Request,
    RequestNumber, SessionId, SourcePlan, SplitPlan, Status, WorkerId,
};
use millstream_link::Role;

use super::defects::SimDefect;
use super::session::Push;
use super::world::{Event, Pid, World};

/// The dispatcher's process and its disk.
#[derive(Debug)]
pub(super) struct Center {
    machine: Dispatcher,
    store: BTreeMap<Key, Record>,
    pub(super) is_up: bool,
    /// The number of the dispatcher's process.
    life: u64,
    committing: Option<Commit>,
    /// Whether the process dies during its next commit.
    dies_in_commit: bool,
    /// The heartbeats that are answered after the next commit.
    heartbeats: Vec<(SessionId, Moment)>,
    /// The process, the connection and the number of each request without an answer.
    asked: BTreeMap<ReplyToken, (Pid, u64, u64)>,
    next_token: u64,
    /// The store before the latest commit, for a defect.
    before: BTreeMap<Key, Record>,
}

/// A batch that the disk is storing.
#[derive(Debug)]
struct Commit {
    batch: Batch,
    heartbeats: Vec<(SessionId, Moment)>,
}

/// The dataset's id.
pub(super) fn dataset_id() -> DatasetId {
    DatasetId::new("numbers").expect("a valid id")
}

fn config() -> DispatcherConfig {
    DispatcherConfig {
        liveness: Duration::from_secs(2),
        client_timeout: client_timeout(),
        acknowledge_timeout: Duration::from_secs(4),
        job_gc_timeout: Some(Duration::from_secs(60)),
        ..DispatcherConfig::default()
    }
}

/// Returns the silence after which the dispatcher releases a client.
pub(super) fn client_timeout() -> Duration {
    Duration::from_secs(5)
}

impl Center {
    pub(super) fn new() -> Center {
        Center {
            machine: Dispatcher::new(config(), BootId(1), Duration::ZERO),
            store: BTreeMap::new(),
            is_up: true,
            life: 0,
            committing: None,
            dies_in_commit: false,
            heartbeats: Vec::new(),
            asked: BTreeMap::new(),
            next_token: 0,
            before: BTreeMap::new(),
        }
    }

    pub(super) fn status(&self) -> Status {
        self.machine.status()
    }

    /// Returns whether the store has a client's record. A client without a record is released.
    pub(super) fn knows(&self, client: ClientId) -> bool {
        self.store.contains_key(&Key::Client(client))
    }

    fn keep(&mut self, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::Put(record) => self.store.insert(record.key(), record),
                Change::Delete(key) => self.store.remove(&key),
            };
        }
    }
}

impl World {
    /// Registers the dataset before any process starts.
    pub(super) fn register_dataset(&mut self) {
        let facts = DatasetFacts {
            spec: vec![],
            cardinality: Cardinality::Unknown,
            splittable: Ok(()),
            aligned: Ok(()),
            not_by_files: None,
            has_shard_hint: false,
            compression: None,
        };
        let request = Request::RegisterDataset {
            id: Some(dataset_id()),
            definition: vec![],
            facts,
        };
        let incoming = Incoming {
            token: ReplyToken(0),
            session: SessionId(1),
            role: Role::Submit,
            number: Some(RequestNumber(1)),
            settled_below: RequestNumber(1),
            request,
        };
        self.center.machine.handle(Input::Asked(incoming), self.now);
        let Batch { changes, .. } = self.center.machine.take_batch();
        self.center.keep(changes);
    }

    pub(super) fn receive_request(
        &mut self,
        (from, connection, number): (Pid, u64, u64),
        (session, role): (SessionId, Role),
        settled_below: RequestNumber,
        request: Request,
    ) {
        if !self.center.is_up {
            return;
        }
        self.center.next_token += 1;
        let token = ReplyToken(self.center.next_token);
        self.center.asked.insert(token, (from, connection, number));
        // Few requests of a session are open at a time, so this number is free.
        let is_renumbered = self.has(SimDefect::NumbersIgnored) && self.chance.percent(50);
        let number = number + if is_renumbered { 100 } else { 0 };
        let incoming = Incoming {
            token,
            session,
            role,
            number: request.is_numbered().then_some(RequestNumber(number)),
            settled_below,
            request,
        };
        self.feed(Input::Asked(incoming));
    }

    pub(super) fn receive_heartbeat(&mut self, from: Pid, connection: u64, sent_at: Moment) {
        let clients = self.trainers.get(&from).and_then(|trainer| trainer.client);
        let worker = self.workers.contains_key(&from);
        let Some(session) = self.session(from).map(|session| (session.id, session.connection)) else {
            return;
        };
        if !self.center.is_up || session.1 != connection {
            return;
        }
        self.center.heartbeats.push((session.0, sent_at));
        self.feed(Input::Heartbeat {
            session: session.0,
            worker,
            clients: clients.into_iter().collect(),
        });
    }

    /// Passes an event to the state machine, and commits the result.
    pub(super) fn feed(&mut self, input: Input) {
        if self.center.is_up {
            self.center.machine.handle(input, self.now);
            self.begin_commit();
        }
    }

    fn begin_commit(&mut self) {
        if self.center.committing.is_some() {
            return;
        }
        let heartbeats = std::mem::take(&mut self.center.heartbeats);
        if !self.center.machine.has_batch() {
            return self.answer_heartbeats(heartbeats);
        }
        let batch = self.center.machine.take_batch();
        self.center.committing = Some(Commit { batch, heartbeats });
        let delay = self.chance.millis(0..self.settings.disk_ms + 1);
        self.later(delay, Event::Committed(self.center.life));
        if self.center.dies_in_commit {
            self.crash_center();
        }
    }

    /// Kills the dispatcher now, or during its next commit.
    pub(super) fn end_center(&mut self) {
        if self.chance.percent(70) {
            self.center.dies_in_commit = true;
        } else {
            self.crash_center();
        }
    }

    pub(super) fn end_commit(&mut self, life: u64) {
        if life != self.center.life {
            return;
        }
        let Some(Commit { batch, heartbeats }) = self.center.committing.take() else {
            return;
        };
        if self.has(SimDefect::CommitForgotten) {
            self.center.before = self.center.store.clone();
        }
        self.center.keep(batch.changes);
        for action in batch.actions {
            self.carry_out(action);
        }
        self.answer_heartbeats(heartbeats);
        self.begin_commit();
    }

    fn answer_heartbeats(&mut self, heartbeats: Vec<(SessionId, Moment)>) {
        for (session, sent_at) in heartbeats {
            self.push(session, Push::Heartbeat(sent_at));
        }
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Reply { token, result } => {
                if let Some((pid, connection, number)) = self.center.asked.remove(&token) {
                    self.answer(pid, connection, number, result);
                }
            }
            Action::PushClient {
                session,
                client,
                push,
            } => self.push(session, Push::Client(client, push)),
            Action::PushWorker { session, push } => self.push(session, Push::Worker(push)),
            Action::PlanSplits { iteration, .. } => {
                let delay = self.chance.millis(0..50);
                self.later(delay, Event::Planned(self.center.life, iteration));
            }
            Action::ProbeWorker { worker, address } => {
                if self.chance.percent(80) {
                    let delay = self.chance.millis(1..100);
                    self.later(delay, Event::Probed(self.center.life, worker, address));
                }
            }
            Action::Disconnect { session, .. } => {
                self.tally.given_up += 1;
                self.push(session, Push::Disconnect);
            }
        }
    }

    pub(super) fn answer_plan(&mut self, life: u64, iteration: IterationId) {
        if life == self.center.life {
            let sources = vec![SourcePlan::Counted {
                splits: self.dataset.splits,
            }];
            let result = Ok(SplitPlan { sources, seed: 0 });
            self.feed(Input::SplitsPlanned { iteration, result });
        }
    }

    pub(super) fn answer_probe(&mut self, life: u64, worker: WorkerId, address: &str) {
        if life == self.center.life {
            let is_closed = !self.workers.values().any(|worker| worker.address == address);
            self.feed(Input::WorkerProbed { worker, is_closed });
        }
    }

    pub(super) fn wake_center(&mut self, life: u64) {
        if life == self.center.life && self.center.is_up {
            self.feed(Input::Woken);
            self.later(Duration::from_millis(250), Event::Woken(life));
        }
    }

    /// Kills the dispatcher. Changes that the disk has not stored are gone.
    fn crash_center(&mut self) {
        if !self.center.is_up {
            return;
        }
        self.tally.restarts += 1;
        (self.center.is_up, self.center.dies_in_commit) = (false, false);
        self.center.life += 1;
        let commit = self.center.committing.take();
        if self.has(SimDefect::CommitTorn)
            && let Some(Commit { mut batch, .. }) = commit
        {
            batch.changes.truncate(batch.changes.len() / 2);
            self.center.keep(batch.changes);
        }
        self.center.heartbeats.clear();
        self.center.asked.clear();
        let workers = self.workers.values_mut().map(|worker| &mut worker.session);
        let trainers = self.trainers.values_mut().map(|trainer| &mut trainer.session);
        workers.chain(trainers).for_each(|session| session.disconnect());
        let delay = self.chance.millis(0..3000);
        self.later(delay, Event::Revived);
    }

    pub(super) fn revive_center(&mut self) {
        if self.has(SimDefect::CommitForgotten) && !self.center.before.is_empty() {
            self.center.store = self.center.before.clone();
        }
        let is_kept = |record: &&Record| {
            !matches!(record, Record::Session(_)) || self.defect != Some(SimDefect::AnswersForgotten)
        };
        let bytes = self.center.store.values().filter(is_kept).map(Record::to_bytes);
        let records: Vec<Record> = bytes
            .map(|bytes| Record::from_bytes(&bytes).expect("a stored record"))
            .collect();
        self.center.machine = Dispatcher::load(config(), records, BootId(9), self.now);
        self.center.is_up = true;
        self.wake_center(self.center.life);
    }
}
