//! The state of the service, and the actions that follow from its changes.
//!
//! The files of each concern add their procedures to [`ServiceState`]. A procedure changes tables and
//! records the actions for the shell. Procedures know nothing of request numbers, remembered answers or
//! roles.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::action::{Action, ClientPush, WorkerPush};
use super::config::DispatcherConfig;
use super::moment::Moment;
use super::paces::Paces;
use super::tables::Tables;
use crate::id::{BootId, ClientId, IterationId, SessionId, WorkerId};
use crate::pace::Measures;

/// The state of the service, and the actions that follow from its changes.
#[derive(Debug)]
pub(super) struct ServiceState {
    pub(super) config: DispatcherConfig,
    pub(super) now: Moment,
    pub(super) tables: Tables,
    pub(super) paces: Paces,
    pub(super) last_collection: Moment,
    actions: Vec<Action>,
}

impl ServiceState {
    pub(super) fn new(config: DispatcherConfig, tables: Tables, now: Moment) -> ServiceState {
        ServiceState {
            config,
            now,
            tables,
            paces: Paces::default(),
            last_collection: now,
            actions: Vec::new(),
        }
    }

    /// Returns the boot id: the name of this life of the state.
    pub(super) fn boot(&self) -> BootId {
        self.tables.meta().boot
    }

    pub(super) fn note_measures(&mut self, session: SessionId, measures: Measures) {
        self.paces
            .note_measures(session, measures, &self.tables, self.now);
    }

    pub(super) fn has_actions(&self) -> bool {
        !self.actions.is_empty()
    }

    pub(super) fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
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
        for client in self.tables.clients.of(iteration) {
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
}
