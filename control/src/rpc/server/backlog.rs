//! The backlog: decisions of the dispatcher for which its store has no space.
//!
//! While a backlog exists, the dispatcher makes no further decision that must be stored. The backlog
//! therefore does not grow with time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::dispatcher::{Action, Change, Key};
use crate::error::Error;

/// The shortest and the longest pause between two attempts to store the backlog. The pause doubles with
/// each failed attempt, because each attempt reopens the store and reads all of it.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// The changes that are not stored yet, and the actions that wait for them.
#[derive(Debug)]
pub(super) struct Backlog {
    /// The latest unstored change of each record.
    changes: BTreeMap<Key, Change>,
    /// The actions to carry out in order, once the changes are stored (C1.6).
    actions: Vec<Action>,
    reason: String,
    pause: Duration,
    retry_at: Instant,
}

impl Backlog {
    /// Begins an empty backlog with the store's reason.
    pub(super) fn new(reason: String) -> Backlog {
        Backlog {
            changes: BTreeMap::new(),
            actions: Vec::new(),
            reason,
            pause: PAUSE_MIN,
            retry_at: Instant::now() + PAUSE_MIN,
        }
    }

    /// Adds the changes and actions of a batch.
    pub(super) fn add(&mut self, changes: Vec<Change>, actions: Vec<Action>) {
        for change in changes {
            self.changes.insert(change.key(), change);
        }
        self.actions.extend(actions);
    }

    /// Returns the time of the next attempt to store the backlog.
    pub(super) fn retry_at(&self) -> Instant {
        self.retry_at
    }

    /// Returns the changes that are still to be stored.
    pub(super) fn changes(&self) -> Vec<Change> {
        self.changes.values().cloned().collect()
    }

    /// Notes that an attempt failed because the store still has no space.
    pub(super) fn put_off(&mut self, reason: String) {
        self.reason = reason;
        self.pause = (2 * self.pause).min(PAUSE_MAX);
        self.retry_at = Instant::now() + self.pause;
    }

    /// Returns the waiting actions, after all changes are stored.
    pub(super) fn into_actions(self) -> Vec<Action> {
        self.actions
    }

    /// Returns the error that answers a request whose changes would have to be stored. The error is
    /// temporary, so that processes repeat the request.
    pub(super) fn refusal(&self) -> Error {
        Error::unavailable(format!(
            "the store is full: {}: free some space, and the dispatcher continues by itself; running reads \
            go on",
            self.reason
        ))
    }
}
