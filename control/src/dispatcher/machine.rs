//! The machine's face: events in, batches of changes and actions out.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;

use super::action::Action;
use super::closing::Closing;
use super::config::DispatcherConfig;
use super::event::{Event, ReplyToken};
use super::moment::Moment;
use super::record::{Change, Phase, Record};
use super::report::status;
use super::state::ServiceState;
use super::status::Status;
use super::tables::Tables;
use crate::id::{BootId, IterationId, RequestNumber, SessionId};

/// Decides who does what: takes requests and events in, routes them to the state of the service, and answers.
///
/// Call [`handle`](Dispatcher::handle) with what happened, any number of times, then
/// [`take_batch`](Dispatcher::take_batch): store its changes, and only then carry out its actions, in order.
/// Send [`Event::Woken`] at [`next_timeout`](Dispatcher::next_timeout).
#[derive(Debug)]
pub struct Dispatcher {
    pub(super) state: ServiceState,
    /// Numbered requests that wait for a plan, with everybody who waits for the answer.
    pub(super) under_way: BTreeMap<(SessionId, RequestNumber), Vec<ReplyToken>>,
    /// Somebody has asked for the end of the service.
    pub(super) closing: Option<Closing>,
    /// When the machine last ran, or was excused for not running (C7.6).
    pub(super) awake_at: Moment,
    pub(super) swept_at: Moment,
}

/// The result of the events since the last batch.
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

    /// A dispatcher that knows what these records say, as if everybody had sent a heartbeat just now;
    /// workers, who need one silence to miss the earlier one, have another to come back. `boot` is the name
    /// of this life of the state, if no record names one.
    pub fn load(
        config: DispatcherConfig,
        records: impl IntoIterator<Item = Record>,
        boot: BootId,
        now: Moment,
    ) -> Dispatcher {
        let mut tables = Tables::load(records, boot);
        // Readers look for a new dispatcher in steps of seconds: none is given up before it can have come
        // back (C6.8).
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
        Dispatcher {
            state,
            under_way: BTreeMap::new(),
            closing: None,
            awake_at: now,
            swept_at: now,
        }
    }

    /// Takes note of what happened. Time never goes back: an earlier `now` counts as the latest one.
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
            // C7.6: only here, after the events that arrived before.
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

    /// Takes the actions since the last call, and drops the changes, for a store that keeps none.
    pub fn take_actions(&mut self) -> Vec<Action> {
        self.state.tables.forget_changes();
        self.state.take_actions()
    }

    /// Returns whether there is a batch to take.
    pub fn has_batch(&self) -> bool {
        self.state.has_actions() || self.state.tables.has_changes()
    }

    /// When the next [`Event::Woken`] is due; `None` while nothing depends on time.
    pub fn next_timeout(&self) -> Option<Moment> {
        let is_idle = self.state.tables.is_idle();
        let sweep = (!is_idle).then(|| self.swept_at + self.state.config.sweep_interval);
        sweep.into_iter().chain(self.closes_at()).min()
    }

    /// The name of this life of the state.
    pub fn boot(&self) -> BootId {
        self.state.boot()
    }

    /// The settings in use.
    pub fn config(&self) -> &DispatcherConfig {
        &self.state.config
    }

    /// A snapshot of everything.
    pub fn status(&self) -> Status {
        status(&self.state)
    }
}
