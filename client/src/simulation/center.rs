//! The dispatcher's process: the production state machine, and a model of the surrounding I/O code. The model
//! covers group commit, a disk that keeps only committed records, connections, and listings of files.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use millstream_control::{
    Action, BootId, Change, ClientId, Dispatcher, DispatcherConfig, Error, Event as Heard, Incoming,
    IterationId, Key, LeaseRange, PlanError, Record, Reply, ReplyToken, Request, RequestNumber, SessionId,
    SourcePlan, SplitPlan, TaskId,
};
use millstream_link::Role;

use super::bugs::Bug;
use super::session::{ConnId, Down, Envelope};
use super::world::{Event, World};

/// An input that a connection forwards to the dispatcher's loop.
#[derive(Debug)]
pub(super) enum Input {
    Asked {
        conn: ConnId,
        session: SessionId,
        role: Role,
        envelope: Envelope,
    },
    Beat {
        conn: ConnId,
        session: SessionId,
        worker: bool,
        clients: Vec<ClientId>,
        sequence: u64,
    },
    Connected {
        conn: ConnId,
        session: SessionId,
    },
    Disconnected {
        conn: ConnId,
        session: SessionId,
    },
}

/// The dispatcher's process.
pub(super) struct Center {
    pub(super) machine: Option<Dispatcher>,
    pub(super) config: DispatcherConfig,
    /// The stored records, which survive a crash.
    durable: BTreeMap<Key, Vec<u8>>,
    /// True if the dispatcher has a work directory for its records.
    pub(super) remembers: bool,
    /// The number of the dispatcher's process, increased at each start.
    pub(super) epoch: u64,
    boots: u64,
    began: Duration,
    inputs: VecDeque<Input>,
    is_turning: bool,
    /// The changes being stored and the actions that follow them. The loop makes no further decisions
    /// meanwhile.
    committing: Option<(Vec<Change>, Vec<Action>)>,
    peers: BTreeMap<SessionId, ConnId>,
    waiting: BTreeMap<ReplyToken, (ConnId, u64, Asked)>,
    next_token: u64,
    greeted: Vec<ConnId>,
    beats: Vec<(ConnId, u64)>,
    numbers_seen: BTreeSet<(SessionId, RequestNumber)>,
    /// True if the dispatcher crashes at its next commit.
    pub(super) dies_storing: bool,
    /// The time until which the disk hangs.
    pub(super) hangs_until: Duration,
}

/// The parts of a request that the simulation needs to check the answer.
#[derive(Clone, Debug)]
struct Asked {
    session: SessionId,
    lease_of: Option<TaskId>,
}

impl Center {
    pub(super) fn new(config: DispatcherConfig, remembers: bool) -> Center {
        Center {
            machine: None,
            config,
            durable: BTreeMap::new(),
            remembers,
            epoch: 0,
            boots: 0,
            began: Duration::ZERO,
            inputs: VecDeque::new(),
            is_turning: false,
            committing: None,
            peers: BTreeMap::new(),
            waiting: BTreeMap::new(),
            next_token: 0,
            greeted: Vec::new(),
            beats: Vec::new(),
            numbers_seen: BTreeSet::new(),
            dies_storing: false,
            hangs_until: Duration::ZERO,
        }
    }

    pub(super) fn boot(&self) -> Option<BootId> {
        self.machine.as_ref().map(Dispatcher::boot)
    }

    /// Returns the records on the disk.
    pub(super) fn stored(&self) -> impl Iterator<Item = Record> + '_ {
        let records = self.durable.values();
        records.map(|bytes| Record::from_bytes(bytes).expect("stored records can be decoded"))
    }
}

impl World {
    /// Starts the dispatcher's process with the records on its disk.
    pub(super) fn start_center(&mut self) {
        let center = &mut self.center;
        center.epoch += 1;
        center.boots += 1;
        center.began = self.now;
        if !center.remembers {
            center.durable.clear();
        }
        if self.bug == Some(Bug::AnswersForgotten) {
            center.durable.retain(|key, _| !matches!(key, Key::Session(_)));
        }
        let records: Vec<Record> = center.stored().collect();
        // C1.8: the numbers of tasks follow from the upper half of the boot number.
        let boot = BootId(center.boots << 40);
        let boot = if self.bug == Some(Bug::BootForgotten) {
            BootId(1)
        } else {
            boot
        };
        center.machine = Some(Dispatcher::load(
            center.config.clone(),
            records,
            boot,
            Duration::ZERO,
        ));
        let epoch = center.epoch;
        self.note(format_args!("dispatcher {epoch} begins"));
        // Carries out the actions that a loaded machine requests at once.
        self.begin_turn();
        self.at(self.now, Event::Woken(epoch));
    }

    /// Crashes the dispatcher. Uncommitted changes, answers in flight and all connections are lost.
    pub(super) fn crash_center(&mut self) {
        let epoch = self.center.epoch;
        self.note(format_args!("dispatcher {epoch} dies"));
        let was_stored = self.chance.percent(50);
        if let Some((changes, _)) = self.center.committing.take()
            && was_stored
        {
            self.keep(changes);
        }
        let center = &mut self.center;
        center.machine = None;
        center.inputs.clear();
        center.peers.clear();
        center.waiting.clear();
        center.greeted.clear();
        center.beats.clear();
        center.is_turning = false;
        self.oracle.answers_were_lost = true;
        self.lose_all_conns();
        let down = if self.plan.is_gentle { 5..300 } else { 5..2500 };
        let back = self.now + self.chance.millis(down);
        self.at(back, Event::StartCenter);
    }

    pub(super) fn input(&mut self, input: Input) {
        self.center.inputs.push_back(input);
        self.begin_turn();
    }

    fn begin_turn(&mut self) {
        if !std::mem::replace(&mut self.center.is_turning, true) {
            let soon = self.now + self.chance.millis(0..3);
            let soon = soon.max(self.center.hangs_until);
            self.at(soon, Event::Turn(self.center.epoch));
        }
    }

    /// Decides all waiting inputs, and stores their changes in one commit (C1.6).
    pub(super) fn turn(&mut self, epoch: u64) {
        if epoch != self.center.epoch || self.center.committing.is_some() {
            return;
        }
        while let Some(input) = self.center.inputs.pop_front() {
            self.take_input(input);
        }
        self.store_batch();
    }

    pub(super) fn wake_center(&mut self, epoch: u64) {
        if epoch != self.center.epoch || self.center.machine.is_none() {
            return;
        }
        if self.center.committing.is_none() {
            self.decide(Heard::Woken);
            self.begin_turn();
        }
        let next = self.now + self.center.config.sweep_interval;
        self.at(next, Event::Woken(epoch));
    }

    pub(super) fn planned(&mut self, epoch: u64, iteration: IterationId, definition: &[u8]) {
        if epoch != self.center.epoch || self.center.machine.is_none() {
            return;
        }
        if self.center.committing.is_some() {
            let later = self.now + Duration::from_millis(1);
            return self.at(later, Event::Planned(epoch, iteration, definition.to_vec()));
        }
        let dataset = definition
            .first()
            .and_then(|job| self.jobs.get(usize::from(*job)));
        let plan = dataset.map(|job| SplitPlan {
            sources: job
                .dataset
                .sources
                .iter()
                .map(|splits| SourcePlan::Counted { splits: *splits })
                .collect(),
            seed: 0,
        });
        let result = plan.ok_or_else(|| PlanError::Definition("unknown definition".to_owned()));
        self.decide(Heard::SplitsPlanned { iteration, result });
        self.begin_turn();
    }

    pub(super) fn committed(&mut self, epoch: u64) {
        if epoch != self.center.epoch {
            return;
        }
        if let Some((changes, actions)) = self.center.committing.take() {
            self.keep(changes);
            self.carry_out(actions);
        }
    }

    fn decide(&mut self, event: Heard) {
        let now = self.now - self.center.began;
        if let Some(machine) = &mut self.center.machine {
            machine.handle(event, now);
        }
    }

    fn take_input(&mut self, input: Input) {
        match input {
            Input::Asked {
                conn,
                session,
                role,
                envelope,
            } => self.take_request(conn, session, role, envelope),
            Input::Beat {
                conn,
                session,
                worker,
                clients,
                sequence,
            } => {
                self.center.beats.push((conn, sequence));
                self.decide(Heard::Heartbeat {
                    session,
                    worker,
                    clients,
                });
            }
            Input::Connected { conn, session } => {
                self.center.greeted.push(conn);
                if let Some(old) = self.center.peers.insert(session, conn) {
                    self.close_conn(old);
                }
            }
            Input::Disconnected { conn, session } => {
                if self.center.peers.get(&session) == Some(&conn) {
                    self.center.peers.remove(&session);
                }
            }
        }
    }

    fn take_request(&mut self, conn: ConnId, session: SessionId, role: Role, envelope: Envelope) {
        let token = ReplyToken(self.center.next_token);
        self.center.next_token += 1;
        let lease_of = if let Request::LeaseSplits { task, .. } = &envelope.request {
            Some(*task)
        } else {
            None
        };
        if let Request::ReturnSplits { task, leases } = &envelope.request {
            self.oracle.returned(*task, leases);
        }
        if let Request::SplitsWaiting(_, task, leases) | Request::SplitsShared(task, _, leases) =
            &envelope.request
        {
            self.oracle.waited(*task, leases);
        }
        let asked = Asked { session, lease_of };
        self.center.waiting.insert(token, (conn, envelope.call, asked));
        let number = envelope.number;
        self.note(format_args!(
            "asked {session} {number:?} {}",
            envelope.request.name()
        ));
        let impatient = self.bug == Some(Bug::RemovalNotAwaited);
        let acknowledged = if let Request::Acknowledge { task, .. } = &envelope.request {
            impatient.then_some(*task)
        } else {
            None
        };
        let incoming = Incoming {
            token,
            session,
            role,
            number: number.map(|number| self.renumbered(session, number)),
            settled_below: envelope.settled_below,
            request: envelope.request,
        };
        self.decide(Heard::Asked(incoming));
        if let Some(task) = acknowledged {
            self.acknowledge_for_everybody(task);
        }
    }

    /// Returns the request's number. With the defect, a repeated request gets a new number.
    fn renumbered(&mut self, session: SessionId, number: RequestNumber) -> RequestNumber {
        let is_repeated = !self.center.numbers_seen.insert((session, number));
        let is_ignored = is_repeated && self.bug == Some(Bug::NumbersIgnored);
        RequestNumber(number.0 + if is_ignored { 128 } else { 0 })
    }

    fn acknowledge_for_everybody(&mut self, task: TaskId) {
        let clients = self.trainers.values().filter_map(|trainer| {
            let session = trainer.session.as_ref()?;
            Some((session.id, trainer.client?))
        });
        for (session, client) in clients.collect::<Vec<_>>() {
            self.decide(Heard::Asked(Incoming {
                token: ReplyToken(u64::MAX),
                session,
                role: Role::Read,
                number: None,
                settled_below: RequestNumber::FIRST,
                request: Request::Acknowledge {
                    client,
                    task,
                    seen: Default::default(),
                },
            }));
        }
    }

    fn store_batch(&mut self) {
        let Some(machine) = &mut self.center.machine else {
            return;
        };
        let batch = machine.take_batch();
        if batch.changes.is_empty() || !self.center.remembers {
            return self.carry_out(batch.actions);
        }
        if self.bug == Some(Bug::AnswerBeforeCommit) {
            self.carry_out(batch.actions);
            self.center.is_turning = true;
            self.center.committing = Some((batch.changes, Vec::new()));
        } else {
            self.center.committing = Some((batch.changes, batch.actions));
        }
        let slow = self.chance.percent(5);
        let done = self.now + self.chance.millis(if slow { 0..300 } else { 0..8 });
        let done = done.max(self.center.hangs_until);
        self.at(done, Event::Committed(self.center.epoch));
        if std::mem::take(&mut self.center.dies_storing) {
            self.crash_center();
        }
    }

    fn keep(&mut self, changes: Vec<Change>) {
        let torn = self.bug == Some(Bug::CommitTorn);
        for (place, change) in changes.into_iter().enumerate() {
            if torn && place % 2 == 1 {
                continue;
            }
            match change {
                Change::Put(record) => self.center.durable.insert(record.key(), record.to_bytes()),
                Change::Delete(key) => self.center.durable.remove(&key),
            };
        }
    }

    /// Carries out actions in order, then answers the heartbeats (C1.9).
    fn carry_out(&mut self, actions: Vec<Action>) {
        for action in actions {
            self.perform(action);
        }
        for conn in std::mem::take(&mut self.center.greeted) {
            let boot = self.center.boot().expect("the dispatcher runs");
            self.send_down(conn, Down::Welcome(boot));
        }
        for (conn, sequence) in std::mem::take(&mut self.center.beats) {
            self.send_down(conn, Down::Beat(sequence));
        }
        self.center.is_turning = false;
        if !self.center.inputs.is_empty() {
            self.begin_turn();
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Reply { token, result } => {
                let Some((conn, call, asked)) = self.center.waiting.remove(&token) else {
                    return;
                };
                let result = self.spoiled(result);
                self.look_at(&asked, &result);
                if !self.is_healed && self.chance.percent(self.plan.answers_lost) {
                    return self.close_conn(conn);
                }
                self.send_down(conn, Down::Answer(call, Box::new(result)));
            }
            Action::PushClient {
                session,
                client,
                push,
            } => {
                if let Some(conn) = self.center.peers.get(&session).copied() {
                    self.send_down(conn, Down::Client(client, Box::new(push)));
                }
            }
            Action::PushWorker { session, push } => {
                if let Some(conn) = self.center.peers.get(&session).copied() {
                    self.send_down(conn, Down::Worker(push));
                }
            }
            // The simulation has no ports to probe, so that only silence reveals a dead worker.
            Action::ProbeWorker { .. } => {}
            Action::PlanSplits {
                iteration, dataset, ..
            } => {
                let at = self.now + self.chance.millis(0..60);
                let definition = dataset.definition.to_vec();
                self.at(at, Event::Planned(self.center.epoch, iteration, definition));
            }
            Action::Disconnect { session, reason } => {
                self.note(format_args!("{session} is given up: {reason}"));
                if let Some(conn) = self.center.peers.remove(&session) {
                    self.close_conn(conn);
                }
            }
        }
    }

    /// Returns the answer unchanged. With the defect, splits that are leased again keep their attempt number.
    fn spoiled(&self, mut result: Result<Reply, Error>) -> Result<Reply, Error> {
        if let Ok(Reply::Splits { runs, .. }) = &mut result
            && self.bug == Some(Bug::AttemptNotRaised)
        {
            runs.iter_mut().for_each(|run| run.attempt = 0);
        }
        result
    }

    /// Shows the oracle every lease that leaves the dispatcher.
    fn look_at(&mut self, asked: &Asked, result: &Result<Reply, Error>) {
        let (Some(task), Ok(Reply::Splits { runs, .. })) = (asked.lease_of, result) else {
            return;
        };
        let machine = self.center.machine.as_ref().expect("the dispatcher runs");
        let is_known = |task: TaskId| {
            let status = machine.status();
            let tasks = status.iterations.iter().flat_map(|iteration| &iteration.tasks);
            tasks.into_iter().any(|row| row.id == task)
        };
        for run in runs {
            self.oracle.leased(task, run, is_known);
        }
        self.note(format_args!(
            "{} leases {:?} to {task}",
            asked.session,
            runs.len()
        ));
    }
}

/// Returns each lease of the ranges.
pub(super) fn leases(ranges: &[LeaseRange]) -> impl Iterator<Item = u64> + '_ {
    ranges
        .iter()
        .flat_map(|range| range.first..range.first + range.count)
}
