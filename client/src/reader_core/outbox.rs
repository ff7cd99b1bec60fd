//! The messages that wait for one worker, and the state of the link to it.
//!
//! Refuses to know how messages travel.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::VecDeque;

use millstream_dataplane::proto::message::ToWorker;
use tokio::time::Instant;

use super::trouble::Trouble;
use crate::error::ReadError;
use crate::place::WorkerPlace;

/// One worker as a reader sees it: its link, and the messages that wait for it.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) messages: VecDeque<ToWorker>,
    pub(super) is_up: bool,
    pub(super) is_local: bool,
    /// The present place of the worker.
    pub(super) place: WorkerPlace,
    /// The link was made to where the worker was before.
    pub(super) has_moved: bool,
    /// Packs of which the header has arrived and the end has not.
    pub(super) packs_on_way: u64,
    /// When something last arrived, or credits were last sent.
    pub(super) stirred_at: Option<Instant>,
    /// The trouble of a worker that cannot be reached.
    pub(super) trouble: Option<Trouble>,
    /// Why it is waited for no longer than for others.
    pub(super) given_up: Option<ReadError>,
}

impl Outbox {
    /// Notes where the worker is; a link that is up may lead elsewhere from now on.
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
