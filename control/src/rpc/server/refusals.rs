//! The counts of refused connections and requests, by which operators notice an attack.

use std::sync::atomic::{AtomicU64, Ordering};

use millstream_link::AcceptCounter;

use crate::dispatcher::{Refusals, Reply};
use crate::error::{Code, Error};

/// The counts of refusals since the dispatcher started.
#[derive(Debug)]
pub(super) struct RefusalCounts {
    accepted: AcceptCounter,
    sessions: AtomicU64,
    denied: AtomicU64,
    over_quota: AtomicU64,
    delayed: AtomicU64,
}

impl RefusalCounts {
    /// Returns counts of zero, combined with the counts of the endpoint.
    pub(super) fn new(accepted: AcceptCounter) -> RefusalCounts {
        RefusalCounts {
            accepted,
            sessions: AtomicU64::new(0),
            denied: AtomicU64::new(0),
            over_quota: AtomicU64::new(0),
            delayed: AtomicU64::new(0),
        }
    }

    /// Counts a connection that was closed because of its session.
    pub(super) fn note_session(&self) {
        count(&self.sessions);
    }

    /// Counts a request that waits for the rate limit of its process.
    pub(super) fn note_delayed(&self) {
        count(&self.delayed);
    }

    /// Counts an answer that is a refusal. Adds the counts to an answer that is the status.
    pub(super) fn look_at(&self, answer: &mut Result<Reply, Error>) {
        match answer {
            Ok(Reply::Status(status)) => status.refusals = self.all(),
            Err(error) if error.code == Code::PermissionDenied => count(&self.denied),
            Err(error) if error.code == Code::ResourceExhausted => count(&self.over_quota),
            Ok(_) | Err(_) => {}
        }
    }

    /// Returns all counts.
    pub(super) fn all(&self) -> Refusals {
        let accepted = self.accepted.counts();
        // Relaxed: the counters are independent and only serve people.
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Refusals {
            handshakes_busy: accepted.refused_busy,
            handshakes_failed: accepted.failed,
            handshakes_timed_out: accepted.timed_out,
            connections_over_quota: accepted.over_quota,
            sessions: read(&self.sessions),
            requests_denied: read(&self.denied),
            requests_over_quota: read(&self.over_quota),
            requests_delayed: read(&self.delayed),
        }
    }
}

fn count(counter: &AtomicU64) {
    // Relaxed: the counters order no other memory access.
    counter.fetch_add(1, Ordering::Relaxed);
}
