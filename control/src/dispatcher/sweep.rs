//! The effects of time: silent processes are given up, grace periods end, and dead workers are forgotten.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::time::Duration;

use super::action::ClientPush;
use super::failure::RemovalReason;
use super::liveness::SilenceLimits;
use super::machine::Dispatcher;
use super::state::ServiceState;
use crate::id::{ClientId, IterationId};

/// The time between two observations of the scaling policy: processes report their paces once a second.
const OBSERVE_EVERY: Duration = Duration::from_secs(1);

impl Dispatcher {
    /// Excuses all processes for the time in which this machine did not run, or ran late (C7.6).
    pub(super) fn forgive_own_silence(&mut self) {
        let (now, interval) = (self.state.now, self.state.config.sweep_interval);
        let late = now.saturating_sub(self.awake_at + interval);
        self.awake_at = now;
        if late > interval {
            self.state.tables.excuse(late);
        }
    }

    pub(super) fn sweep(&mut self) {
        let now = self.state.now;
        self.swept_at = now;
        let limits = SilenceLimits::of(&self.state.config);
        for worker in self.state.tables.workers.liveness.dead(now, limits) {
            self.state.end_worker(worker, RemovalReason::WorkerSilent, true);
        }
        for worker in self.state.tables.workers.liveness.to_probe(now, limits) {
            self.state.probe_worker(worker);
        }
        for client in self
            .state
            .tables
            .clients
            .seen
            .overdue(now, self.state.config.client_timeout)
        {
            self.state.lapse_client(client);
        }
        self.state.end_suspects();
        for task in self
            .state
            .tables
            .removals
            .begun
            .overdue(now, self.state.config.acknowledge_timeout)
        {
            self.state.expire_removal(task);
        }
        self.state.tell_stranded();
        self.state.tell_incomplete();
        self.state.forget_workers();
        self.state.paces.forget_gone(&self.state.tables);
        let tables = &self.state.tables;
        let has_tasks = |iteration: &IterationId| tables.tasks.count_of(*iteration) > 0;
        self.state.divisions.retain(has_tasks);
        self.state.turns.retain(|task| tables.takes_turns(*task));
        self.state.scale();
        self.forget_sessions();
        self.state.collect_unused();
    }

    /// Forgets processes that were silent for the client timeout (C1.10). A living worker repeats requests
    /// until its lease ends, which may be longer. Its tasks hold the splits of answers that it still expects.
    fn forget_sessions(&mut self) {
        let timeout = self.state.config.client_timeout;
        let silent = self.state.tables.sessions.seen.overdue(self.state.now, timeout);
        for session in silent {
            let waits = self.under_way.keys().any(|(waiting, _)| *waiting == session);
            let is_worker = self.state.tables.workers.living_of(session).is_ok();
            if !waits && !is_worker {
                self.state.tables.sessions.remove(session);
            }
        }
    }
}

impl ServiceState {
    /// Passes an observation to the scaling policy (C11.5).
    fn scale(&mut self) {
        if self.now.saturating_sub(self.scaled_at) >= OBSERVE_EVERY {
            self.scaled_at = self.now;
            let seen = self.paces.observation(&self.tables, self.now);
            self.scaling.step(self.now, &seen);
        }
    }

    /// Forgets workers that have been dead for the worker timeout (C7.7).
    fn forget_workers(&mut self) {
        let workers = &self.tables.workers;
        for id in workers.died.overdue(self.now, self.config.worker_timeout) {
            self.tables.forget_worker(id);
        }
    }

    /// Tells a client which of the workers that it needs are lost.
    pub(super) fn tell_workers_lost(&mut self, client: ClientId) {
        let row = self.tables.clients.get(&client);
        let workers = row
            .map(|row| self.tables.missing_workers(row))
            .unwrap_or_default();
        if !workers.is_empty() {
            self.push_client(client, ClientPush::WorkersLost { workers });
        }
    }

    /// Tells clients which workers are lost. A client is told after the grace if it lost all workers that
    /// it may read, or the worker of a share (C7.5, C8.4).
    fn tell_stranded(&mut self) {
        for iteration in self.tables.iterations.running() {
            for client in self.tables.clients.of(iteration) {
                let row = self.tables.clients.get(&client);
                if row.is_none_or(|row| self.tables.missing_workers(row).is_empty()) {
                    self.tables.clients.stranded.clear(&client);
                    continue;
                }
                let (alarms, grace) = (&mut self.tables.clients.stranded, self.config.workers_lost_grace);
                if alarms.raise(client, self.now, grace) {
                    self.tell_workers_lost(client);
                }
            }
        }
    }
}
