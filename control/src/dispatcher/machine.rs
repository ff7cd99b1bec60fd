//! The machine's face: events in, batches of changes and actions out.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;

use super::action::{Action, ClientPush, WorkerPush};
use super::closing::Closing;
use super::config::DispatcherConfig;
use super::event::{Event, ReplyToken};
use super::liveness::WorkerLiveness;
use super::moment::Moment;
use super::paces::Paces;
use super::record::{Change, Phase, Record};
use super::tables::Tables;
use crate::id::{
    BootId, ClientId, DatasetId, IterationId, JobId, RequestNumber, SessionId, TaskId, WorkerId,
};
use crate::whereabouts::Whereabouts;

/// Decides who does what.
///
/// Call [`handle`](Dispatcher::handle) with what happened, any number of times, then [`take_batch`](Dispatcher::take_batch):
/// store its changes, and only then carry out its actions, in order. Send [`Event::Woken`] at
/// [`next_timeout`](Dispatcher::next_timeout).
#[derive(Debug)]
pub struct Dispatcher {
    pub(super) config: DispatcherConfig,
    pub(super) tables: Tables,
    pub(super) now: Moment,
    pub(super) clocks: Clocks,
    /// Numbered requests that wait for a plan, with everybody who waits for the answer.
    pub(super) under_way: BTreeMap<(SessionId, RequestNumber), Vec<ReplyToken>>,
    /// Of those, who wants to become a client of what.
    pub(super) openers: BTreeMap<IterationId, Vec<Opener>>,
    pub(super) paces: Paces,
    /// Somebody has asked for the end of the service.
    pub(super) closing: Option<Closing>,
    actions: Vec<Action>,
}

/// Who wants to become a client, by which request, and what it says of itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opener {
    pub(super) session: SessionId,
    pub(super) number: RequestNumber,
    pub(super) consumer: Option<u32>,
    pub(super) whereabouts: Whereabouts,
}

/// What is not remembered across a restart: after one, everybody is given a full timeout (C1.6).
#[derive(Debug, Default)]
pub(super) struct Clocks {
    pub(super) liveness: WorkerLiveness,
    pub(super) worker_died: BTreeMap<WorkerId, Moment>,
    pub(super) client_seen: BTreeMap<ClientId, Moment>,
    pub(super) session_seen: BTreeMap<SessionId, Moment>,
    pub(super) removed: BTreeMap<TaskId, Moment>,
    /// Clients that have lost workers that they cannot go on without: since when, and whether they were told.
    pub(super) stranded: BTreeMap<ClientId, (Moment, bool)>,
    /// Coordinated reads that miss consumers: since when, and whether the others were told.
    pub(super) incomplete: BTreeMap<IterationId, (Moment, bool)>,
    /// Iterations without clients, planned or over: since when.
    pub(super) unread: BTreeMap<IterationId, Moment>,
    /// When somebody last asked for a job.
    pub(super) jobs_used: BTreeMap<JobId, Moment>,
    /// When somebody last asked for a dataset, or its last job went.
    pub(super) datasets_used: BTreeMap<DatasetId, Moment>,
    /// When the machine last ran, or was excused for not running (C7.6).
    pub(super) awake_at: Moment,
    pub(super) swept_at: Moment,
    pub(super) last_collection: Moment,
}

/// What came of the events since the last batch.
#[derive(Debug, Default)]
pub struct Batch {
    /// To be stored, all or none.
    pub changes: Vec<Change>,
    /// To be carried out afterwards, in order.
    pub actions: Vec<Action>,
}

impl Dispatcher {
    /// A dispatcher that knows nothing yet.
    pub fn new(config: DispatcherConfig, boot: BootId, now: Moment) -> Dispatcher {
        Dispatcher::load(config, [], boot, now)
    }

    /// A dispatcher that knows what these records say, as if everybody had given a sign of life just now; workers, who need
    /// one silence to miss the earlier one, have another to come back. `boot` is the name of this life of the state, if no
    /// record names one.
    pub fn load(
        config: DispatcherConfig,
        records: impl IntoIterator<Item = Record>,
        boot: BootId,
        now: Moment,
    ) -> Dispatcher {
        let tables = Tables::load(records, boot);
        let mut machine = Dispatcher {
            config,
            tables,
            now,
            clocks: Clocks::default(),
            under_way: BTreeMap::new(),
            openers: BTreeMap::new(),
            paces: Paces::default(),
            closing: None,
            actions: Vec::new(),
        };
        machine.restart_clocks();
        machine
    }

    /// Takes note of what happened. Time never goes back: an earlier `now` counts as the latest one.
    pub fn handle(&mut self, event: Event, now: Moment) {
        self.now = self.now.max(now);
        self.forgive_own_silence();
        match event {
            Event::Asked(incoming) => self.handle_request(incoming),
            Event::Heartbeat {
                session,
                worker,
                clients,
            } => self.handle_heartbeat(session, worker, &clients),
            Event::Measured { session, measures } => self.handle_measures(session, measures),
            Event::SplitsPlanned { iteration, result } => self.handle_plan(iteration, result),
            Event::WorkerProbed { worker, is_closed } => {
                self.clocks.liveness.note_probed(worker, is_closed, self.now);
            }
            Event::Disconnected { session, departure } => self.handle_departure(session, departure),
            // C7.6: only here, after the events that arrived before.
            Event::Woken => {
                if self.now >= self.clocks.swept_at + self.config.sweep_interval {
                    self.sweep();
                }
            }
        }
        #[cfg(debug_assertions)]
        self.check_invariants();
    }

    /// What came of the events since the last call.
    pub fn take_batch(&mut self) -> Batch {
        Batch {
            changes: self.tables.take_changes(),
            actions: std::mem::take(&mut self.actions),
        }
    }

    /// What is to be done since the last call, without the changes: for a store that keeps none.
    pub fn take_actions(&mut self) -> Vec<Action> {
        self.tables.forget_changes();
        std::mem::take(&mut self.actions)
    }

    /// Whether there is a batch to take.
    pub fn has_batch(&self) -> bool {
        !self.actions.is_empty() || self.tables.has_changes()
    }

    /// When the next [`Event::Woken`] is due; `None` while nothing depends on time.
    pub fn next_timeout(&self) -> Option<Moment> {
        let clocks = &self.clocks;
        let idle = clocks.liveness.is_empty()
            && clocks.worker_died.is_empty()
            && clocks.client_seen.is_empty()
            && clocks.session_seen.is_empty()
            && clocks.removed.is_empty()
            && clocks.unread.is_empty()
            && clocks.jobs_used.is_empty()
            && clocks.datasets_used.is_empty();
        let sweep = (!idle).then(|| clocks.swept_at + self.config.sweep_interval);
        sweep.into_iter().chain(self.closes_at()).min()
    }

    /// The name of this life of the state.
    pub fn boot(&self) -> BootId {
        self.tables.meta().boot
    }

    /// The settings in use.
    pub fn config(&self) -> &DispatcherConfig {
        &self.config
    }

    pub(super) fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    pub(super) fn push_client(&mut self, client: ClientId, push: ClientPush) {
        if let Some(row) = self.tables.clients.get(&client) {
            let session = row.session;
            self.act(Action::PushClient {
                session,
                client,
                push,
            });
        }
    }

    pub(super) fn push_clients(&mut self, iteration: IterationId, push: &ClientPush) {
        for client in self.tables.clients_of(iteration) {
            self.push_client(client, push.clone());
        }
    }

    pub(super) fn push_worker(&mut self, worker: WorkerId, push: WorkerPush) {
        if let Some(row) = self.tables.workers.get(&worker)
            && row.dead.is_none()
        {
            let session = row.session;
            self.act(Action::PushWorker { session, push });
        }
    }

    fn restart_clocks(&mut self) {
        let now = self.now;
        let clocks = &mut self.clocks;
        (clocks.awake_at, clocks.swept_at) = (now, now);
        clocks.last_collection = now;
        for worker in self.tables.workers.values() {
            if worker.dead.is_none() {
                clocks.liveness.note_stored(worker.id, now);
            } else {
                clocks.worker_died.insert(worker.id, now);
            }
        }
        // Readers look for a new dispatcher in steps of seconds: none is given up before it can have come back (C6.8).
        let back = now + self.config.liveness * 2;
        clocks.client_seen = self.tables.clients.iter().map(|(id, _)| (*id, back)).collect();
        clocks.session_seen = self.tables.sessions.iter().map(|(id, _)| (*id, now)).collect();
        let removals = self.tables.removals.values();
        let removals = removals.filter(|row| !row.is_coordinated());
        clocks.removed = removals.map(|row| (row.task, now)).collect();
        clocks.jobs_used = self.tables.jobs.iter().map(|(id, _)| (*id, now)).collect();
        clocks.datasets_used = self
            .tables
            .datasets
            .iter()
            .map(|(id, _)| (id.clone(), now))
            .collect();
        let planning: Vec<IterationId> = self
            .tables
            .iterations
            .values()
            .filter(|row| row.phase == Phase::Planning)
            .map(|row| row.id)
            .collect();
        for iteration in planning {
            self.ask_for_plan(iteration);
        }
        let planned: Vec<IterationId> = self
            .tables
            .iterations
            .values()
            .filter(|row| row.phase != Phase::Planning)
            .map(|row| row.id)
            .collect();
        for iteration in planned {
            self.note_readers(iteration);
        }
    }
}
