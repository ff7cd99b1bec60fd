//! The owner of each session: the process that opened the session, known by its certificate and role
//! (C1.13).
//!
//! Session numbers appear in logs. A person with a key and access to the logs must not receive another
//! process's messages, nor act for it. Pure: the caller passes in the time.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use millstream_link::Role;

use crate::id::SessionId;

/// The hash of a process's certificate.
pub(super) type ProcessId = [u8; 32];

/// Maximum number of sessions of one certificate, including sessions that ended recently: three new
/// sessions a second for five minutes (C15.6).
const SESSIONS_PER_PROCESS_MAX: usize = 1024;

/// The reason for which a connection under a session is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotAdmitted {
    /// The session belongs to another process.
    Foreign,
    /// The process has the maximum number of sessions.
    TooMany,
}

impl NotAdmitted {
    /// Returns the reason in words for the peer.
    pub(super) fn reason(self) -> &'static str {
        match self {
            NotAdmitted::Foreign => "this session belongs to another process",
            NotAdmitted::TooMany => {
                "this process has begun too many sessions lately: use one, or wait five minutes"
            }
        }
    }
}

/// The owners of connected sessions, and of sessions that were connected recently.
#[derive(Debug)]
pub(super) struct Owners {
    of_session: BTreeMap<SessionId, Owner>,
    /// The time for which a session without a connection still belongs to its process.
    kept: Duration,
    sessions_max: usize,
}

#[derive(Debug)]
struct Owner {
    process: ProcessId,
    role: Role,
    connections: u32,
    /// The time at which the latest connection ended; meaningful only without a connection.
    left: Instant,
}

impl Owners {
    /// Returns the owners of no session yet. The owners of at most `sessions_max` sessions are kept, each
    /// for `kept` after its last connection.
    pub(super) fn new(kept: Duration, sessions_max: usize) -> Owners {
        Owners {
            of_session: BTreeMap::new(),
            kept,
            sessions_max,
        }
    }

    /// Notes that a process connects under a session.
    ///
    /// # Errors
    /// [`NotAdmitted`]: the session belongs to another process, or the process has too many sessions.
    pub(super) fn admit(
        &mut self,
        session: SessionId,
        process: ProcessId,
        role: Role,
        now: Instant,
    ) -> Result<(), NotAdmitted> {
        if self.of_session.len() >= self.sessions_max {
            self.forget(now);
        }
        if !self.of_session.contains_key(&session) && self.known(process, now) >= SESSIONS_PER_PROCESS_MAX {
            return Err(NotAdmitted::TooMany);
        }
        let owner = self.of_session.entry(session).or_insert(Owner {
            process,
            role,
            connections: 0,
            left: now,
        });
        if owner.connections == 0 && now.saturating_duration_since(owner.left) > self.kept {
            (owner.process, owner.role) = (process, role);
        }
        if owner.process != process || owner.role != role {
            return Err(NotAdmitted::Foreign);
        }
        owner.connections += 1;
        Ok(())
    }

    /// Returns the number of a process's sessions that are connected, or were connected recently.
    fn known(&self, process: ProcessId, now: Instant) -> usize {
        let kept = self.kept;
        let is_its = |owner: &&Owner| {
            owner.process == process
                && (owner.connections > 0 || now.saturating_duration_since(owner.left) <= kept)
        };
        self.of_session.values().filter(is_its).count()
    }

    /// Notes that an admitted connection has ended.
    pub(super) fn leave(&mut self, session: SessionId, now: Instant) {
        if let Some(owner) = self.of_session.get_mut(&session) {
            owner.connections = owner.connections.saturating_sub(1);
            owner.left = now;
        }
    }

    /// Forgets sessions that ended long ago. If the table is still full, forgets recently ended sessions as
    /// well, until one session fits.
    fn forget(&mut self, now: Instant) {
        let kept = self.kept;
        self.of_session
            .retain(|_, owner| owner.connections > 0 || now.saturating_duration_since(owner.left) <= kept);
        let mut excess = (self.of_session.len() + 1).saturating_sub(self.sessions_max);
        self.of_session.retain(|_, owner| {
            let is_kept = owner.connections > 0 || excess == 0;
            excess -= usize::from(!is_kept);
            is_kept
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: Duration = Duration::from_secs(300);
    const OWN: ProcessId = [1; 32];
    const OTHER: ProcessId = [2; 32];

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant will do to count from")]
    fn a_session_stays_with_its_process() {
        let now = Instant::now();
        let mut owners = Owners::new(KEPT, 10);
        let session = SessionId(7);
        assert_eq!(owners.admit(session, OWN, Role::Read, now), Ok(()));
        assert_eq!(
            owners.admit(session, OTHER, Role::Read, now),
            Err(NotAdmitted::Foreign)
        );
        assert_eq!(
            owners.admit(session, OWN, Role::Worker, now),
            Err(NotAdmitted::Foreign),
            "another role"
        );
        assert_eq!(
            owners.admit(session, OWN, Role::Read, now),
            Ok(()),
            "a second connection"
        );
        owners.leave(session, now);
        owners.leave(session, now);
        assert_eq!(
            owners.admit(session, OTHER, Role::Read, now + KEPT),
            Err(NotAdmitted::Foreign)
        );
        assert_eq!(
            owners.admit(session, OTHER, Role::Read, now + 2 * KEPT),
            Ok(()),
            "the session has no owner any more"
        );
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant will do to count from")]
    fn connected_sessions_are_never_forgotten() {
        let now = Instant::now();
        let mut owners = Owners::new(KEPT, 4);
        assert_eq!(owners.admit(SessionId(0), OWN, Role::Read, now), Ok(()));
        for number in 1..100 {
            assert_eq!(owners.admit(SessionId(number), OTHER, Role::Read, now), Ok(()));
            owners.leave(SessionId(number), now);
            assert!(owners.of_session.len() <= 4);
        }
        assert_eq!(
            owners.admit(SessionId(0), OTHER, Role::Read, now),
            Err(NotAdmitted::Foreign)
        );
    }

    /// Tests the limit of sessions of one certificate (C15.6).
    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant will do to count from")]
    fn one_process_cannot_invent_sessions_for_ever() {
        let now = Instant::now();
        let mut owners = Owners::new(KEPT, 10_000);
        for number in 0..SESSIONS_PER_PROCESS_MAX as u64 {
            assert_eq!(owners.admit(SessionId(number), OWN, Role::Read, now), Ok(()));
            owners.leave(SessionId(number), now);
        }
        let new = SessionId(100_000);
        assert_eq!(
            owners.admit(new, OWN, Role::Read, now + KEPT),
            Err(NotAdmitted::TooMany)
        );
        assert_eq!(
            owners.admit(SessionId(7), OWN, Role::Read, now),
            Ok(()),
            "a known session is still admitted"
        );
        assert_eq!(owners.admit(new, OTHER, Role::Read, now), Ok(()));
        assert_eq!(
            owners.admit(SessionId(200_000), OWN, Role::Read, now + 2 * KEPT),
            Ok(())
        );
    }
}
