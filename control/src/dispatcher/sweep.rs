//! What happens because time passes: silences end, graces run out, the dead are forgotten.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::time::Duration;

use super::action::ClientPush;
use super::failure::RemovalReason;
use super::liveness::SilenceLimits;
use super::machine::Dispatcher;
use super::moment::Moment;
use crate::id::{ClientId, SessionId};

impl Dispatcher {
    /// C7.6: excuses everybody for the time in which this machine itself was not run, or was run late.
    pub(super) fn forgive_own_silence(&mut self) {
        let late = self
            .now
            .saturating_sub(self.clocks.awake_at + self.config.sweep_interval);
        self.clocks.awake_at = self.now;
        if late <= self.config.sweep_interval {
            return;
        }
        let clocks = &mut self.clocks;
        clocks.liveness.excuse(late);
        let stamps = clocks
            .client_seen
            .values_mut()
            .chain(clocks.session_seen.values_mut())
            .chain(clocks.removed.values_mut())
            .chain(clocks.worker_died.values_mut())
            .chain(clocks.unread.values_mut())
            .chain(clocks.jobs_used.values_mut())
            .chain(clocks.datasets_used.values_mut());
        stamps.for_each(|stamp| *stamp += late);
        let told = clocks.stranded.values_mut().chain(clocks.incomplete.values_mut());
        told.for_each(|(since, _)| *since += late);
    }

    pub(super) fn sweep(&mut self) {
        let now = self.now;
        self.clocks.swept_at = now;
        let limits = SilenceLimits::of(&self.config);
        for worker in self.clocks.liveness.dead(now, limits) {
            self.end_worker(worker, RemovalReason::WorkerSilent);
        }
        for worker in self.clocks.liveness.to_probe(now, limits) {
            self.probe_worker(worker);
        }
        for client in overdue(&self.clocks.client_seen, now, self.config.client_timeout) {
            self.lapse_client(client);
        }
        self.end_suspects();
        for task in overdue(&self.clocks.removed, now, self.config.acknowledge_timeout) {
            self.expire_removal(task);
        }
        self.tell_stranded();
        self.tell_incomplete();
        self.forget_workers();
        self.forget_paces();
        self.forget_sessions();
        self.collect_unused();
    }

    /// What a client without workers is told.
    pub(super) fn tell_workers_lost(&mut self, client: ClientId) {
        let row = self.tables.clients.get(&client);
        let workers = row.map(|row| self.missing_workers(row)).unwrap_or_default();
        if !workers.is_empty() {
            self.push_client(client, ClientPush::WorkersLost { workers });
        }
    }

    /// C7.5: a client that lost all workers that it may read, and no other came, or the worker of a share (C8.4).
    fn tell_stranded(&mut self) {
        for iteration in self.tables.index.running.clone() {
            for client in self.tables.clients_of(iteration) {
                let row = self.tables.clients.get(&client);
                if row.is_none_or(|row| self.missing_workers(row).is_empty()) {
                    self.clocks.stranded.remove(&client);
                    continue;
                }
                let (since, told) = *self.clocks.stranded.entry(client).or_insert((self.now, false));
                if !told && self.now >= since + self.config.workers_lost_grace {
                    self.clocks.stranded.insert(client, (since, true));
                    self.tell_workers_lost(client);
                }
            }
        }
    }

    /// C7.7
    fn forget_workers(&mut self) {
        for id in overdue(&self.clocks.worker_died, self.now, self.config.worker_timeout) {
            self.forget_worker(id);
        }
    }

    /// C1.10
    fn forget_sessions(&mut self) {
        let silent: Vec<SessionId> = overdue(&self.clocks.session_seen, self.now, self.config.client_timeout);
        for session in silent {
            let waits = self.under_way.keys().any(|(waiting, _)| *waiting == session);
            if !waits {
                self.clocks.session_seen.remove(&session);
                self.tables.remove_session(session);
            }
        }
    }
}

pub(super) fn overdue<K: Clone + Ord>(stamps: &BTreeMap<K, Moment>, now: Moment, limit: Duration) -> Vec<K> {
    let late = |stamp: &Moment| now.saturating_sub(*stamp) > limit;
    stamps
        .iter()
        .filter(|(_, stamp)| late(stamp))
        .map(|(key, _)| key.clone())
        .collect()
}
