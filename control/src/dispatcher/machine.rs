//! The interface of the dispatcher's state machine: events in, batches of changes and actions out.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::sync::Arc;

use super::action::Action;
use super::closing::Closing;
use super::config::DispatcherConfig;
use super::event::{Event, ReplyToken};
use super::happened::{ServiceEvent, ServiceEventKind};
use super::moment::Moment;
use super::record::{Change, Phase, Record};
use super::report::status;
use super::stages::{Stages, stages};
use super::state::ServiceState;
use super::status::Status;
use super::tables::Tables;
use crate::id::{BootId, IterationId, RequestNumber, SessionId};

/// The dispatcher's state machine: takes requests and other events, routes them to the state of the
/// service, and answers.
///
/// The caller passes events to [`handle`](Dispatcher::handle), any number of them, and then
/// calls [`take_batch`](Dispatcher::take_batch). The caller stores the changes of the batch, and only then
/// carries out its actions, in order. At [`next_timeout`](Dispatcher::next_timeout), the caller
/// sends [`Event::Woken`].
#[derive(Debug)]
pub struct Dispatcher {
    pub(super) state: ServiceState,
    /// The numbered requests that wait for a plan, each with the tokens of all callers that wait for its
    /// answer.
    pub(super) under_way: BTreeMap<(SessionId, RequestNumber), Vec<ReplyToken>>,
    /// The shutdown of the service, once a process has asked for the shutdown.
    pub(super) closing: Option<Closing>,
    /// The time at which the machine last ran, or to which a pause of its own was excused (C7.6).
    pub(super) awake_at: Moment,
    pub(super) swept_at: Moment,
}

/// The result of the events since the last batch.
#[derive(Debug, Default)]
pub struct Batch {
    /// The changes to store, all or none.
    pub changes: Vec<Change>,
    /// The actions to carry out in order, after the changes are stored.
    pub actions: Vec<Action>,
}

impl Dispatcher {
    /// Returns a dispatcher without any records.
    pub fn new(config: DispatcherConfig, boot: BootId, now: Moment) -> Dispatcher {
        Dispatcher::load(config, [], boot, now)
    }

    /// Returns a dispatcher with the state of these records. Every process counts as having sent a
    /// heartbeat just now. Workers get their whole lease, because a worker notices the restart only by a
    /// silence, and needs the rest to come back. `boot` names this life of the state if no record holds a
    /// boot id.
    pub fn load(
        config: DispatcherConfig,
        records: impl IntoIterator<Item = Record>,
        boot: BootId,
        now: Moment,
    ) -> Dispatcher {
        let mut tables = Tables::load(records, boot);
        // A reader looks for a restarted dispatcher in steps of seconds. No reader is given up before it
        // can have come back (C6.8).
        tables.restart_clocks(now, now + config.liveness * 2);
        let planning = tables
            .iterations
            .values()
            .filter(|row| row.phase == Phase::Planning);
        let planning: Vec<IterationId> = planning.map(|row| row.id).collect();
        let mut state = ServiceState::new(config, tables, now);
        for iteration in planning {
            state.ask_for_plan(iteration);
        }
        let (workers, jobs) = (
            state.tables.workers.living_count(),
            state.tables.catalog.job_count(),
        );
        let text = format!("This dispatcher leads. Its records name {workers} workers and {jobs} jobs.");
        state.tell(ServiceEventKind::Leading, text);
        Dispatcher {
            state,
            under_way: BTreeMap::new(),
            closing: None,
            awake_at: now,
            swept_at: now,
        }
    }

    /// Handles an event. Time never goes back: an earlier `now` counts as the latest time so far.
    pub fn handle(&mut self, event: Event, now: Moment) {
        self.state.now = self.state.now.max(now);
        self.forgive_own_silence();
        match event {
            Event::Asked(incoming) => self.handle_request(incoming),
            Event::Heartbeat {
                session,
                worker,
                clients,
            } => self.state.handle_heartbeat(session, worker, &clients),
            Event::Measured { session, measures } => self.state.note_measures(session, measures),
            Event::SplitsPlanned { iteration, result } => self.handle_plan(iteration, result),
            Event::WorkerProbed { worker, is_closed } => {
                let now = self.state.now;
                self.state
                    .tables
                    .workers
                    .liveness
                    .note_probed(worker, is_closed, now);
            }
            Event::Disconnected { session, departure } => self.state.handle_departure(session, departure),
            // Timeouts are checked only here, after all events that arrived before (C7.6).
            Event::Woken => {
                if self.state.now >= self.swept_at + self.state.config.sweep_interval {
                    self.sweep();
                }
            }
        }
        #[cfg(debug_assertions)]
        self.state
            .tables
            .check_invariants(&self.state.config.worker_addresses);
    }

    /// Takes the changes and actions since the last call.
    pub fn take_batch(&mut self) -> Batch {
        Batch {
            changes: self.state.tables.take_changes(),
            actions: self.state.take_actions(),
        }
    }

    /// Takes the actions since the last call and drops the changes. Serves a store that keeps no records.
    pub fn take_actions(&mut self) -> Vec<Action> {
        self.state.tables.forget_changes();
        self.state.take_actions()
    }

    /// Returns whether changes or actions wait to be taken.
    pub fn has_batch(&self) -> bool {
        self.state.has_actions() || self.state.tables.has_changes()
    }

    /// Returns when the next [`Event::Woken`] is due; `None` while nothing depends on time.
    pub fn next_timeout(&self) -> Option<Moment> {
        let is_idle = self.state.tables.is_idle();
        let sweep = (!is_idle).then(|| self.swept_at + self.state.config.sweep_interval);
        sweep.into_iter().chain(self.closes_at()).min()
    }

    /// Returns the boot id: the name of this life of the state.
    pub fn boot(&self) -> BootId {
        self.state.boot()
    }

    /// Returns the settings in use.
    pub fn config(&self) -> &DispatcherConfig {
        &self.state.config
    }

    /// Returns the latest events of the service, with the oldest first.
    pub fn service_events(&self) -> Vec<Arc<ServiceEvent>> {
        self.state.happened.all()
    }

    /// Returns the stages of the pipelines of running iterations.
    pub fn stages(&self) -> Stages {
        stages(&self.state)
    }

    /// Returns a snapshot of the whole service.
    pub fn status(&self) -> Status {
        status(&self.state)
    }
}
