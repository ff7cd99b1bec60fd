//! The state of the service, and the actions that follow from its changes.
//!
//! The files of each concern add their procedures to [`ServiceState`]. A procedure changes tables and
//! records the actions for the shell. Procedures know nothing of request numbers, remembered answers or
//! roles.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::action::{Action, ClientPush, WorkerPush};
use super::config::DispatcherConfig;
use super::division::Divisions;
use super::happened::{ServiceEventKind, ServiceEvents};
use super::moment::Moment;
use super::paces::Paces;
use super::tables::Tables;
use super::turns::Turns;
use crate::id::{BootId, ClientId, IterationId, JobId, SessionId, WorkerId};
use crate::pace::Measures;
use crate::scaling::ScalingPolicy;

/// The state of the service, and the actions that follow from its changes.
#[derive(Debug)]
pub(super) struct ServiceState {
    pub(super) config: DispatcherConfig,
    pub(super) now: Moment,
    pub(super) tables: Tables,
    pub(super) paces: Paces,
    pub(super) divisions: Divisions,
    pub(super) turns: Turns,
    pub(super) scaling: ScalingPolicy,
    /// The time of the latest observation of the policy.
    pub(super) scaled_at: Moment,
    pub(super) last_collection: Moment,
    pub(super) happened: ServiceEvents,
    actions: Vec<Action>,
}

impl ServiceState {
    pub(super) fn new(config: DispatcherConfig, tables: Tables, now: Moment) -> ServiceState {
        let scaling = ScalingPolicy::new(config.scaling.clone(), now);
        ServiceState {
            config,
            now,
            tables,
            paces: Paces::default(),
            divisions: Divisions::default(),
            turns: Turns::default(),
            scaling,
            scaled_at: now,
            last_collection: now,
            happened: ServiceEvents::default(),
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

    /// Notes an event that concerns no job.
    pub(super) fn tell(&mut self, kind: ServiceEventKind, text: String) {
        self.happened.add(self.now, kind, None, text);
    }

    /// Notes an event of a job.
    pub(super) fn tell_of_job(&mut self, kind: ServiceEventKind, job: JobId, text: String) {
        self.happened.add(self.now, kind, Some(job), text);
    }

    /// Notes an event of an epoch. The text continues the name of the epoch.
    pub(super) fn tell_of_epoch(&mut self, kind: ServiceEventKind, id: IterationId, text: &str) {
        if let Some(row) = self.tables.iterations.get(&id) {
            let (job, epoch) = (row.job, row.repetition);
            self.tell_of_job(kind, job, format!("Epoch {epoch} of job {job} {text}"));
        }
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
