//! The decisions of the dispatcher for which its store has no room.
//!
//! While there is a backlog, the dispatcher decides nothing further that would have to be stored. So the
//! backlog does not grow with time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::dispatcher::{Action, Change, Key};
use crate::error::Error;

/// Between attempts to store: from this, doubling to the other. Each opens the store again, which reads all
/// of it.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// Changes that are not stored, and what waits for them.
#[derive(Debug)]
pub(super) struct Backlog {
    /// The latest change of each record.
    changes: BTreeMap<Key, Change>,
    /// In order; to be carried out once the changes are stored (C1.6).
    actions: Vec<Action>,
    reason: String,
    pause: Duration,
    retry_at: Instant,
}

impl Backlog {
    /// Begins one, for this reason.
    pub(super) fn new(reason: String) -> Backlog {
        Backlog {
            changes: BTreeMap::new(),
            actions: Vec::new(),
            reason,
            pause: PAUSE_MIN,
            retry_at: Instant::now() + PAUSE_MIN,
        }
    }

    /// Adds what was decided.
    pub(super) fn add(&mut self, changes: Vec<Change>, actions: Vec<Action>) {
        for change in changes {
            self.changes.insert(change.key(), change);
        }
        self.actions.extend(actions);
    }

    /// Returns when storing is tried next.
    pub(super) fn retry_at(&self) -> Instant {
        self.retry_at
    }

    /// Returns the changes to be stored.
    pub(super) fn changes(&self) -> Vec<Change> {
        self.changes.values().cloned().collect()
    }

    /// Notes that there is still no room.
    pub(super) fn put_off(&mut self, reason: String) {
        self.reason = reason;
        self.pause = (2 * self.pause).min(PAUSE_MAX);
        self.retry_at = Instant::now() + self.pause;
    }

    /// Returns what waited: everything is stored.
    pub(super) fn into_actions(self) -> Vec<Action> {
        self.actions
    }

    /// Returns the answer to a request that would have to be stored. It passes, so that reports are repeated.
    pub(super) fn refusal(&self) -> Error {
        Error::unavailable(format!(
            "the store is full: {}: the dispatcher goes on by itself once there is room; what is being read is read on",
            self.reason
        ))
    }
}
