//! The messages that wait for one worker, and the state of the link to it.
//!
//! This file does not know how messages are sent.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::VecDeque;

use millstream_dataplane::proto::message::ToWorker;
use tokio::time::Instant;

use super::trouble::Trouble;
use crate::error::ReadError;
use crate::place::WorkerPlace;

/// The state of one worker within a reader: its link, and the messages that wait for it.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) messages: VecDeque<ToWorker>,
    pub(super) is_up: bool,
    pub(super) is_local: bool,
    /// The current place of the worker.
    pub(super) place: WorkerPlace,
    /// True if the link leads to an earlier place of the worker.
    pub(super) has_moved: bool,
    /// The number of packs whose header has arrived but whose end has not.
    pub(super) packs_on_way: u64,
    /// The time of the last arrival, or of the last grant of credits.
    pub(super) stirred_at: Option<Instant>,
    /// The outage of a worker that cannot be reached.
    pub(super) trouble: Option<Trouble>,
    /// The error with which reading fails once only given-up workers have tasks left; `None` while this
    /// worker is not given up.
    pub(super) given_up: Option<ReadError>,
}

impl Outbox {
    /// Notes the current address of the worker. A link that is up may still lead to the earlier address.
    pub(super) fn move_to(&mut self, place: WorkerPlace) {
        if self.is_up && place.has_moved_from(&self.place) {
            self.has_moved = true;
        }
        self.place = place;
    }

    pub(super) fn push(&mut self, message: ToWorker) {
        self.messages.push_back(message);
    }
}
