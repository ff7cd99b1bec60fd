//! Workers: how incarnations register, send heartbeats, and leave.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::action::{Action, ClientPush, Reply, StopReason, WorkerPush};
use super::addresses::NAME_BYTES_MAX;
use super::config::{LOCAL_SOCKET_BYTES_MAX, TAGS_BYTES_MAX, TAGS_MAX, WORKER_ADDRESS_BYTES_MAX};
use super::event::{Departure, WorkerRegistration};
use super::failure::{Blame, RemovalReason};
use super::happened::ServiceEventKind;
use super::liveness::SilenceLimits;
use super::outcome::Outcome;
use super::record::{HiddenKey, TaskPhase, WorkerRecord};
use super::state::ServiceState;
use super::tables::Tables;
use crate::error::Error;
use crate::id::{ClientId, SessionId, TaskId, WorkerId};

impl ServiceState {
    pub(super) fn register_worker(
        &mut self,
        session: SessionId,
        registration: WorkerRegistration,
    ) -> Result<Outcome, Error> {
        registration.check()?;
        if let Some(id) = self.tables.workers.of_session(session) {
            return self.welcome_back(id, &registration);
        }
        // A registration is refused before any table changes.
        let index = self
            .tables
            .workers
            .place_of(&registration.address, &self.config.worker_addresses)?;
        // A new session at a known address means that the earlier incarnation is dead (C7.2).
        let previous = self.tables.workers.at_address(&registration.address);
        let living = self.tables.workers.living_count();
        if previous.is_none() && living >= self.config.workers_max {
            let limit = self.config.workers_max;
            return Err(Error::exhausted(format!(
                "this dispatcher has {limit} workers and takes no more"
            )));
        }
        if let Some(previous) = previous {
            let row = self.tables.workers.get(&previous);
            // A worker that was cut off begins again under a new session, in the same process.
            let is_death = !row.is_some_and(|row| row.whereabouts.is_same_process(&registration.whereabouts));
            self.end_worker(previous, RemovalReason::WorkerRestarted, is_death);
        }
        let limit = self.config.workers_max.saturating_mul(2);
        for id in self
            .tables
            .workers
            .in_the_way(&registration.address, previous, limit)
        {
            self.tables.forget_worker(id);
        }
        let id = self.tables.meta().next_worker;
        self.tables.meta_mut().next_worker = WorkerId(id.0 + 1);
        let (address, version) = (&registration.address, &registration.version);
        let text = format!("Worker {address} has registered as worker {id}, with version {version}.");
        self.tell(ServiceEventKind::WorkerRegistered, text);
        let record = WorkerRecord {
            id,
            session,
            address: registration.address,
            tags: registration.tags,
            ticket_key: HiddenKey(registration.ticket_key.to_bytes().into()),
            version: registration.version,
            dead: None,
            index,
            draining: false,
            whereabouts: registration.whereabouts,
            local_socket: registration.local_socket,
        };
        self.tables.workers.insert(record, self.now);
        self.assign(id);
        // A worker that registers later gets a task of every running iteration (C3.2).
        for iteration in self.tables.iterations.running() {
            let start_round = self.tables.late_start(iteration);
            self.create_task(iteration, id, start_round);
        }
        for iteration in self.tables.iterations.running() {
            // Suspects may have waited for a worker (C16.8).
            self.catch_up(iteration);
        }
        Ok(Outcome::Reply(Reply::Worker(id)))
    }

    pub(super) fn leave_worker(&mut self, session: SessionId) -> Result<(), Error> {
        if let Some(id) = self.tables.workers.of_session(session) {
            self.end_worker(id, RemovalReason::WorkerLeft, false);
        }
        Ok(())
    }

    pub(super) fn handle_heartbeat(&mut self, session: SessionId, worker: bool, clients: &[ClientId]) {
        if self.tables.sessions.contains(&session) {
            self.tables.sessions.seen.note(session, self.now);
        }
        if worker {
            match self.tables.workers.living_of(session) {
                Ok(id) => {
                    let limits = SilenceLimits::of(&self.config);
                    self.tables.workers.liveness.note_heartbeat(id, self.now, limits);
                }
                // Only a worker that was given up is disconnected. A worker without a record has not
                // registered yet (C7.4).
                Err(error) if self.tables.workers.of_session(session).is_some() => {
                    let reason = error.message;
                    self.act(Action::Disconnect { session, reason });
                }
                Err(_) => {}
            }
        }
        for client in clients {
            if self.tables.clients.owned_by(session, *client).is_ok() {
                self.tables.clients.seen.note(*client, self.now);
            } else {
                let push = ClientPush::Lapsed;
                self.act(Action::PushClient {
                    session,
                    client: *client,
                    push,
                });
            }
        }
    }

    /// Handles the end of a process's connection.
    pub(super) fn handle_departure(&mut self, session: SessionId, departure: Departure) {
        if departure == Departure::Goodbye {
            for client in self.tables.clients.of_session(session) {
                self.end_client(client);
            }
        }
        let Ok(id) = self.tables.workers.living_of(session) else {
            return;
        };
        match departure {
            // The worker has dropped its tasks, and this session does not come back.
            Departure::Goodbye => self.end_worker(id, RemovalReason::WorkerSilent, false),
            Departure::Reset => {
                self.tables.workers.liveness.note_probed(id, true, self.now);
                self.probe_worker(id);
            }
            Departure::Lost => self.probe_worker(id),
        }
    }

    /// Handles a reader's report that it has lost its link to a worker (C7.8).
    pub(super) fn suspect(
        &mut self,
        session: SessionId,
        client: ClientId,
        address: String,
    ) -> Result<(), Error> {
        self.tables.clients.owned_by(session, client)?;
        if let Some(id) = self.tables.workers.at_address(&address)
            && self.tables.workers.liveness.note_reported(id)
        {
            self.probe_worker(id);
        }
        Ok(())
    }

    /// Asks the shell to check whether a process listens at a worker's address.
    pub(super) fn probe_worker(&mut self, id: WorkerId) {
        if let Some(row) = self.tables.workers.get(&id) {
            let address = row.address.clone();
            self.act(Action::ProbeWorker { worker: id, address });
        }
    }

    /// Ends a worker that is gone, together with its tasks that are not settled. `is_death` says that the
    /// worker's process may have died of a split (C16.7).
    pub(super) fn end_worker(&mut self, id: WorkerId, reason: RemovalReason, is_death: bool) {
        let is_death = is_death && !self.tables.workers.is_draining(id);
        let blames = is_death.then(|| self.tables.blames(id));
        let Some(session) = self.tables.workers.end(id, reason, self.now) else {
            return;
        };
        let (address, tasks) = (self.tables.workers.address_of(id), self.tables.tasks.count_on(id));
        match reason {
            RemovalReason::WorkerSilent | RemovalReason::WorkerRestarted => self.tell(
                ServiceEventKind::WorkerGivenUp,
                format!("Worker {address} with {tasks} tasks was given up: {reason}."),
            ),
            RemovalReason::WorkerLeft => self.tell(
                ServiceEventKind::WorkerLeft,
                format!("Worker {address} with {tasks} tasks has left."),
            ),
        }
        for task in self.tables.tasks.on(id) {
            match self.tables.tasks.get(&task).map(|task| &task.phase) {
                Some(TaskPhase::Running | TaskPhase::Finished) => {
                    let blame = blames.as_ref().map_or(Blame::Nothing, |blames| blames(task));
                    self.remove_task(task, reason, blame);
                }
                Some(TaskPhase::Failed(_)) => self.end_failed_task(task),
                Some(TaskPhase::Settled) | None => {}
            }
        }
        match reason {
            RemovalReason::WorkerSilent | RemovalReason::WorkerRestarted => self.act(Action::Disconnect {
                session,
                reason: format!("this worker was given up: {reason}"),
            }),
            // The worker still waits for an answer, and closes the connection itself.
            RemovalReason::WorkerLeft => {}
        }
    }

    fn welcome_back(&mut self, id: WorkerId, registration: &WorkerRegistration) -> Result<Outcome, Error> {
        let Some(row) = self.tables.workers.get(&id) else {
            return Err(Error::internal("a worker's session has no worker"));
        };
        row.check_living()?;
        if row.address != registration.address {
            return Err(Error::invalid(format!(
                "this worker is registered at {}: it cannot move to {}",
                row.address, registration.address
            )));
        }
        if !row.keeps_place(&self.config.worker_addresses) {
            return Err(Error::aborted(format!(
                "this dispatcher's fixed list of workers has changed: worker {} must register again",
                row.address
            )));
        }
        self.tables.workers.liveness.note_registered(id, self.now);
        self.assign(id);
        Ok(Outcome::Reply(Reply::Worker(id)))
    }

    /// Sends a worker its assignment: the list of all its tasks (C7.3).
    fn assign(&mut self, id: WorkerId) {
        let mine = self.tables.tasks.on(id).into_iter();
        let mine = mine.filter_map(|task| self.tables.tasks.get(&task));
        let mine = mine.filter(|task| matches!(task.phase, TaskPhase::Running | TaskPhase::Finished));
        // A stopped task must not begin again, because it would settle the splits that it had begun before
        // (C10.4).
        let (stopped, kept): (Vec<_>, Vec<_>) = mine.partition(|task| task.stopped);
        let stopped: Vec<TaskId> = stopped.iter().map(|task| task.id).collect();
        let tasks = kept.iter().map(|task| task.id).collect();
        for task in stopped {
            let reason = StopReason::Draining;
            self.push_worker(id, WorkerPush::Stop { task, reason });
        }
        self.push_worker(id, WorkerPush::Assigned { tasks });
        self.ask_for_missed(id);
    }
}

impl Tables {
    /// Forgets a dead worker, unless settled tasks of running iterations name it.
    pub(super) fn forget_worker(&mut self, id: WorkerId) {
        if self.tasks.count_on(id) == 0 {
            self.workers.forget(id);
        }
    }
}

impl WorkerRegistration {
    /// Checks the registration against the limits for every worker.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !(1..=WORKER_ADDRESS_BYTES_MAX).contains(&self.address.len()) {
            return Err(Error::invalid(format!(
                "a worker's address has 1 to {WORKER_ADDRESS_BYTES_MAX} bytes"
            )));
        }
        let tags_bytes: usize = self.tags.iter().map(String::len).sum();
        if self.tags.len() > TAGS_MAX || tags_bytes > TAGS_BYTES_MAX || self.tags.iter().any(String::is_empty)
        {
            return Err(Error::precondition(format!(
                "a worker has at most {TAGS_MAX} tags, of at least 1 byte each and at most {TAGS_BYTES_MAX} bytes together"
            )));
        }
        let socket = self.local_socket.as_deref().unwrap_or_default();
        if socket.len() > LOCAL_SOCKET_BYTES_MAX {
            return Err(Error::invalid(format!(
                "a worker's local socket has at most {LOCAL_SOCKET_BYTES_MAX} bytes"
            )));
        }
        if self.version.len() > NAME_BYTES_MAX {
            return Err(Error::invalid(format!(
                "a version has at most {NAME_BYTES_MAX} bytes"
            )));
        }
        Ok(())
    }
}
