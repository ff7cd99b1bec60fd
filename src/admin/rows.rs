//! Documents that are written in one go, from rows that borrow from the state.

use std::fmt::Display;

use millstream_control::LinkCounts;
use serde::{Serialize, Serializer};

/// Returns a document as one line of JSON.
pub(super) fn json_text(document: &impl Serialize) -> String {
    serde_json::to_string(document).unwrap_or_else(|error| {
        // Documents have names as keys, and their rows cannot fail.
        tracing::error!(%error, "a document could not be written");
        "{}".to_owned()
    })
}

/// Rows that are written one after the other, without a list of them.
pub(super) struct Rows<'s, T, R>(pub(super) &'s [T], pub(super) fn(&'s T) -> R);

impl<T, R: Serialize> Serialize for Rows<'_, T, R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(self.1))
    }
}

/// A value that is written as its text.
pub(super) struct Shown<T>(pub(super) T);

impl<T: Display> Serialize for Shown<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// The number of links by transport.
#[derive(Serialize)]
pub(super) struct LinksRow {
    memory: u64,
    shm: u64,
    quic: u64,
}

impl From<LinkCounts> for LinksRow {
    fn from(links: LinkCounts) -> LinksRow {
        LinksRow {
            memory: links.memory,
            shm: links.shared_memory,
            quic: links.network,
        }
    }
}
