//! Which process a session belongs to: the one that opened it, told by its certificate and role (C1.13).
//!
//! A session's number stands in logs. Whoever reads it there and has some role's key must not receive what the process is told, nor act
//! for it. Pure: told the time.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use millstream_link::Role;

use crate::id::SessionId;

/// The hash of a process' certificate.
pub(super) type ProcessId = [u8; 32];

/// The owners of the sessions that are connected, and of those that were lately.
#[derive(Debug)]
pub(super) struct Owners {
    of_session: BTreeMap<SessionId, Owner>,
    /// How long a session without a connection stays its process'.
    kept: Duration,
    sessions_max: usize,
}

#[derive(Debug)]
struct Owner {
    process: ProcessId,
    role: Role,
    connections: u32,
    /// When the latest connection ended; of use while there is none.
    left: Instant,
}

impl Owners {
    /// Owners of at most `sessions_max` sessions without a connection, each for `kept` after its last connection.
    pub(super) fn new(kept: Duration, sessions_max: usize) -> Owners {
        Owners {
            of_session: BTreeMap::new(),
            kept,
            sessions_max,
        }
    }

    /// Notes that a process connects under a session. Returns whether the session is its own, or nobody's.
    pub(super) fn admit(&mut self, session: SessionId, process: ProcessId, role: Role, now: Instant) -> bool {
        if self.of_session.len() >= self.sessions_max {
            self.forget(now);
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
        let is_own = owner.process == process && owner.role == role;
        owner.connections += u32::from(is_own);
        is_own
    }

    /// Notes that a connection which was admitted has ended.
    pub(super) fn leave(&mut self, session: SessionId, now: Instant) {
        if let Some(owner) = self.of_session.get_mut(&session) {
            owner.connections = owner.connections.saturating_sub(1);
            owner.left = now;
        }
    }

    /// Forgets sessions that have been left for long; of those left lately, as many as are too many.
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
        assert!(owners.admit(session, OWN, Role::Read, now));
        assert!(!owners.admit(session, OTHER, Role::Read, now));
        assert!(!owners.admit(session, OWN, Role::Worker, now), "another role");
        assert!(owners.admit(session, OWN, Role::Read, now), "a second connection");
        owners.leave(session, now);
        owners.leave(session, now);
        assert!(!owners.admit(session, OTHER, Role::Read, now + KEPT));
        assert!(
            owners.admit(session, OTHER, Role::Read, now + 2 * KEPT),
            "it is nobody's"
        );
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "any instant will do to count from")]
    fn connected_sessions_are_never_forgotten() {
        let now = Instant::now();
        let mut owners = Owners::new(KEPT, 4);
        assert!(owners.admit(SessionId(0), OWN, Role::Read, now));
        for number in 1..100 {
            assert!(owners.admit(SessionId(number), OTHER, Role::Read, now));
            owners.leave(SessionId(number), now);
            assert!(owners.of_session.len() <= 4);
        }
        assert!(!owners.admit(SessionId(0), OTHER, Role::Read, now));
    }
}
