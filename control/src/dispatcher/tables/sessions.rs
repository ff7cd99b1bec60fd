//! The processes whose numbered requests are remembered.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::stamps::Stamps;
use super::table::Table;
use crate::dispatcher::moment::Moment;
use crate::dispatcher::record::SessionRecord;
use crate::id::SessionId;

/// The sessions of all processes that have sent a numbered request.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    pub(super) rows: Table<SessionId, SessionRecord>,
    of_read: usize,
    /// The time at which each process was last heard.
    pub(crate) seen: Stamps<SessionId>,
}

impl Sessions {
    /// Adds a session from the store.
    pub(super) fn load(&mut self, row: SessionRecord) {
        self.of_read += usize::from(row.is_read);
        self.rows.load(row.id, row);
    }

    pub(crate) fn insert(&mut self, row: SessionRecord) {
        self.of_read += usize::from(row.is_read);
        self.rows.insert(row.id, row);
    }

    /// Forgets a process, together with the answers that it was given.
    pub(crate) fn remove(&mut self, id: SessionId) {
        self.seen.remove(&id);
        if let Some(row) = self.rows.remove(&id) {
            self.of_read -= usize::from(row.is_read);
        }
    }

    pub(crate) fn get(&self, id: &SessionId) -> Option<&SessionRecord> {
        self.rows.get(id)
    }

    pub(crate) fn get_mut(&mut self, id: &SessionId) -> Option<&mut SessionRecord> {
        self.rows.get_mut(id)
    }

    pub(crate) fn contains(&self, id: &SessionId) -> bool {
        self.rows.contains(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the number of processes of role `read`.
    pub(crate) fn of_read(&self) -> usize {
        self.of_read
    }

    /// Gives every process a full timeout.
    pub(crate) fn restart_clocks(&mut self, now: Moment) {
        for row in self.rows.values() {
            self.seen.note(row.id, now);
        }
    }

    /// Panics if the counts contradict the rows.
    #[cfg(debug_assertions)]
    pub(crate) fn check(&self) {
        let of_read = self.rows.values().filter(|row| row.is_read).count();
        assert_eq!(self.of_read, of_read, "sessions of role `read`");
    }
}
