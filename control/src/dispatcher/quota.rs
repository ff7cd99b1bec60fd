//! The quotas of each process, and of all processes of role `read` together (C15).
//!
//! Many people have a `read` key, and one of these people must not lock out the others. A refusal affects
//! the process that asks for too much, and never takes a granted record away from another process.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;

use super::record::{Phase, QuotaOwner};
use super::state::ServiceState;
use super::tables::Tables;
use crate::error::Error;
use crate::id::{IterationId, SessionId};

impl ServiceState {
    /// Checks that a process may create another job. At the limit, the oldest job of the process without
    /// iterations makes room (C15.2).
    pub(super) fn check_jobs(&mut self, owner: QuotaOwner) -> Result<(), Error> {
        let limit = self.config.jobs_per_process_max;
        if self.tables.catalog.jobs_of(owner.session).len() >= limit && !self.forget_idle_job(owner.session) {
            return Err(Error::exhausted(format!(
                "this process reads {limit} jobs that it created, the most for one process: finish some"
            )));
        }
        let all = (self.tables.catalog.job_count(), self.config.jobs_max);
        check_share("jobs", all, self.tables.catalog.jobs_of_read(), owner.is_read)
    }

    /// Checks that a process may begin another iteration. At the limit, the oldest unread iteration of the
    /// process makes room (C15.1).
    pub(super) fn check_iterations(&mut self, owner: QuotaOwner) -> Result<(), Error> {
        let limit = self.config.iterations_open_per_process_max;
        let own = |other: QuotaOwner| other.session == owner.session;
        if self.tables.open_count(own) >= limit && !self.forget_unread_iteration(own) {
            return Err(Error::exhausted(format!(
                "this process began {limit} iterations that are not finished, the most for one process: \
                read some to their end, or \
                 close their readers"
            )));
        }
        let (limit, is_reader) = (self.config.iterations_open_max, |other: QuotaOwner| other.is_read);
        if owner.is_read && self.tables.open_count(is_reader) >= share(limit) {
            self.forget_unread_iteration(is_reader);
        }
        let of_read = self.tables.open_count(is_reader);
        let all = (self.tables.iterations.open().count(), limit);
        check_share("unfinished iterations", all, of_read, owner.is_read)?;
        let of_read = self.tables.iterations.of_read();
        let all = (self.tables.iterations.len(), self.config.iterations_max);
        check_share("iterations", all, of_read, owner.is_read)
    }

    /// Checks that a process may have another client.
    pub(super) fn check_clients(&self, session: SessionId) -> Result<(), Error> {
        let limit = self.config.clients_per_process_max;
        if self.tables.clients.count_of_session(session) >= limit {
            return Err(Error::exhausted(format!(
                "this process has {limit} clients, the most for one process: close some of its readers"
            )));
        }
        let all = (self.tables.clients.len(), self.config.clients_max);
        check_share("clients", all, 0, false)
    }

    /// Checks that the requests of another process can be remembered.
    pub(super) fn check_sessions(&self, is_read: bool) -> Result<(), Error> {
        let all = (self.tables.sessions.len(), self.config.sessions_max);
        check_share("processes", all, self.tables.sessions.of_read(), is_read)
    }

    /// Forgets an unread iteration: the oldest unread iteration of the process that has the most unread
    /// iterations. Returns false if every iteration is read.
    fn forget_unread_iteration(&mut self, is_meant: impl Fn(QuotaOwner) -> bool) -> bool {
        let mut unread: BTreeMap<SessionId, Vec<IterationId>> = BTreeMap::new();
        let tables = &self.tables;
        for row in tables.iterations.open().filter(|row| row.phase == Phase::Running) {
            if let Some(owner) = row.owner.filter(|owner| is_meant(*owner))
                && !tables.clients.has_any_of(row.id)
            {
                unread.entry(owner.session).or_default().push(row.id);
            }
        }
        let most = unread.into_values().max_by_key(Vec::len);
        let Some(first) = most.and_then(|ids| ids.into_iter().min()) else {
            return false;
        };
        self.collect_running(first);
        true
    }

    /// Forgets the process's oldest job without iterations. Returns false if every job has an iteration.
    fn forget_idle_job(&mut self, session: SessionId) -> bool {
        let mut jobs = self.tables.catalog.jobs_of(session).into_iter();
        let Some(idle) = jobs.find(|job| !self.tables.iterations.has_any_of(*job)) else {
            return false;
        };
        self.tables.catalog.remove_job(idle, self.now);
        self.tables.iterations.forget_consumers(idle);
        true
    }
}

impl Tables {
    fn open_count(&self, is_counted: impl Fn(QuotaOwner) -> bool) -> usize {
        let open = self.iterations.open();
        open.filter(|row| row.owner.is_some_and(&is_counted)).count()
    }
}

/// Returns the part of a limit that processes of role `read` may have together.
fn share(limit: usize) -> usize {
    limit.div_ceil(2)
}

/// Checks that a table has room for one more record. A process of role `read` must also find room within
/// the half that all such processes may have (C15.3).
fn check_share(
    name: &str,
    (count, limit): (usize, usize),
    of_read: usize,
    is_read: bool,
) -> Result<(), Error> {
    if count >= limit {
        return Err(Error::exhausted(format!(
            "this dispatcher has {limit} {name} and takes no more: try again later"
        )));
    }
    let share = share(limit);
    if is_read && of_read >= share {
        return Err(Error::exhausted(format!(
            "processes of role `read` have {share} {name} at this dispatcher, the most for all of them \
            together: try again later"
        )));
    }
    Ok(())
}
