//! The state of one task within a reader: its credits, its elements that wait, and its splits.
//!
//! Refuses to know other tasks and the consumer.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use millstream_dataplane::proto::message::{Grant, Subscribe};
use millstream_dataplane::proto::receive::{ReceiveError, ReceiveHalf};
use millstream_dataplane::transport::Body;
use millstream_element::{Layout, Pack};
use tokio::time::Instant;

use super::credit::{CREDIT_BYTES_UNKNOWN, Standing};
use super::delivery::Delivery;
use super::trouble::{Outages, Unknown};
use crate::error::ReadError;
use crate::event::TaskSource;

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) half: ReceiveHalf<Body>,
    pub(super) source: TaskSource,
    pub(super) worker: Arc<str>,
    /// The trainer as which the task is read through the cross-trainer cache. Splits of such a task are not
    /// reported (D8.5).
    pub(super) trainer_id: Option<Arc<str>>,
    pub(super) layout: Option<Arc<Layout>>,
    /// Elements polled from the half.
    pub(super) delivered: u64,
    /// The elements among them that were not handed over.
    pub(super) polled: u64,
    /// Elements handed over that the consumer keeps until others come.
    pub(super) kept: u64,
    pub(super) is_subscribed: bool,
    /// Nothing is copied on the link to its worker.
    pub(super) is_local: bool,
    pub(super) is_removed: bool,
    /// Credits of a removed task whose elements may still be on their way.
    pub(super) written_off: u64,
    pub(super) is_finished: bool,
    /// The failure that the dispatcher told, until the worker tells it after the elements before.
    pub(super) failure: Option<String>,
    /// The worker does not know the task.
    pub(super) unknown: Option<Unknown>,
    /// Why the task is waited for no longer than for others.
    pub(super) given_up: Option<ReadError>,
    pub(super) granted_at: u64,
    /// Whether the task gave credits back for want of elements, and has not asked for new ones.
    pub(super) has_yielded: bool,
    /// Leases of splits with elements handed over and more to come.
    pub(super) seen: BTreeSet<u64>,
    /// Leases of splits that ended while elements of them wait, and how many elements were polled until then.
    pub(super) done: BTreeMap<u64, u64>,
    /// Splits that ended and that the dispatcher does not know to be done: leases, each behind the number of
    /// elements that the user must be done with before (D5.6).
    pub(super) unconfirmed: VecDeque<(u64, u64)>,
    /// Elements that the user is done with, as the worker was last told.
    pub(super) used_told: u64,
    /// The state that only coordinated reads have.
    pub(super) in_turn: InTurn,
}

/// The elements that a consumer of a coordinated read keeps of a task until it is its turn.
#[derive(Debug, Default)]
pub(super) struct InTurn {
    /// The arrived elements, in order.
    pub(super) queue: VecDeque<Delivery>,
    /// The pack before those, and the next of its elements.
    pub(super) open: Option<(Pack, usize)>,
    /// The groups of a removed task that may be handed over, as far as it is known.
    pub(super) frozen: Option<u64>,
    /// The failure of the task, told after the groups that are released.
    pub(super) failed: Option<ReadError>,
}

impl Entry {
    pub(super) fn new(
        source: TaskSource,
        worker: Arc<str>,
        is_coordinated: bool,
        trainer_id: Option<Arc<str>>,
    ) -> Self {
        let half = if is_coordinated {
            ReceiveHalf::coordinated(source.task)
        } else {
            ReceiveHalf::new(source.task)
        };
        Self {
            half,
            source,
            worker,
            trainer_id,
            layout: None,
            delivered: 0,
            polled: 0,
            kept: 0,
            is_subscribed: false,
            is_local: false,
            is_removed: false,
            written_off: 0,
            is_finished: false,
            failure: None,
            unknown: None,
            given_up: None,
            granted_at: 0,
            has_yielded: false,
            seen: BTreeSet::new(),
            done: BTreeMap::new(),
            unconfirmed: VecDeque::new(),
            used_told: 0,
            in_turn: InTurn::default(),
        }
    }

    /// Makes a delivery of elements that arrived in order; `None` before the worker has sent their
    /// specification.
    pub(super) fn deliver(&mut self, elements: u64, body: Body) -> Option<Delivery> {
        let layout = self.layout.clone()?;
        self.polled += elements;
        self.delivered += elements;
        Some(Delivery {
            task: self.source.task,
            worker: Arc::clone(&self.worker),
            layout,
            body,
        })
    }

    /// Books a pack whose header arrived. What a removed task had been granted may still come, and is
    /// dropped.
    pub(super) fn admit(&mut self, first: u64, elements: u64, region_bytes: u64) -> Result<(), ReceiveError> {
        if !self.is_removed {
            return self.half.admit(first, elements, region_bytes);
        }
        let worth = self
            .half
            .granted_bytes()
            .next_multiple_of(64)
            .saturating_mul(elements);
        if elements > self.written_off || region_bytes > worth {
            return Err(ReceiveError::Contradiction { count: first });
        }
        self.written_off -= elements;
        Ok(())
    }

    /// The dispatcher removed the task: nothing of it counts any more but what the consumer can see.
    pub(super) fn remove(&mut self) {
        self.is_removed = true;
        self.written_off = self.half.outstanding();
        self.half.handle_link_lost();
    }

    /// The message that opens or resumes the subscription; it says what is here, too.
    pub(super) fn subscribe(&mut self) -> Subscribe {
        Subscribe {
            trainer_id: self.trainer_id.as_deref().map(str::to_owned),
            ..self.half.subscribe(self.source.ticket.clone())
        }
    }

    /// Acknowledges the elements and the ends of splits that arrived since the last acknowledgement, which
    /// the worker keeps until then (D6.5). It also reports `used` elements that the user is done with, which
    /// others wait for (D5.6).
    pub(super) fn acknowledgement(&mut self, used: u64) -> Option<Grant> {
        let is_behind = self.half.is_unacknowledged() || used > self.used_told;
        let is_due = self.is_subscribed && self.is_wanted() && is_behind;
        is_due.then(|| self.half.acknowledge())
    }

    /// Returns whether the worker may still say itself that the task failed, behind what it sent before. In a
    /// coordinated read it does so to everybody, however late (C9.7).
    pub(super) fn may_hear_of_failure(&self, is_coordinated: bool) -> bool {
        (self.layout.is_some() || is_coordinated) && self.unknown.is_none()
    }

    /// The error that the task failed with, if the dispatcher said so.
    pub(super) fn told_failure(&self) -> Option<ReadError> {
        self.failure
            .as_deref()
            .map(|message| ReadError::task(&self.worker, message))
    }

    /// The link to the worker broke.
    pub(super) fn handle_link_lost(&mut self) {
        self.half.handle_link_lost();
        self.is_subscribed = false;
        (self.unknown, self.given_up) = (None, None);
        self.written_off = 0;
    }

    /// A split ended behind what was polled so far.
    pub(super) fn note_done(&mut self, lease: u64) {
        self.seen.remove(&lease);
        self.done.insert(lease, self.delivered);
    }

    /// The elements that the user is done with, from the first on (D5.6); `is_in_use` says that it may still
    /// use the latest.
    pub(super) fn used(&self, is_in_use: bool) -> u64 {
        (self.delivered - self.polled).saturating_sub(u64::from(is_in_use))
    }

    /// Takes out the splits that ended within the first `used` elements: the user is done with them.
    pub(super) fn confirm(&mut self, used: u64) -> impl Iterator<Item = u64> + use<> {
        let due = self.unconfirmed.partition_point(|(upto, _)| *upto <= used);
        let confirmed: Vec<u64> = self.unconfirmed.drain(..due).map(|(_, lease)| lease).collect();
        confirmed.into_iter()
    }

    /// The splits that ended and that the user is not done with.
    pub(super) fn waiting_splits(&self) -> impl Iterator<Item = u64> + '_ {
        self.unconfirmed.iter().map(|(_, lease)| *lease)
    }

    /// Forgets ended splits none of whose elements wait.
    pub(super) fn forget_done(&mut self) {
        let handed = self.delivered - self.polled;
        self.done.retain(|_, position| *position > handed);
    }

    /// Groups of a coordinated read that may be handed over (D7.3).
    pub(super) fn released(&self) -> u64 {
        self.in_turn.frozen.unwrap_or_else(|| self.half.released())
    }

    pub(super) fn is_wanted(&self) -> bool {
        !self.is_removed && !self.is_finished
    }

    pub(super) fn standing(&self) -> Standing {
        Standing {
            task: self.source.task,
            outstanding: self.half.outstanding(),
            waiting: self.half.held() + self.polled,
            kept: self.kept,
            element_bytes: self.credit_bytes(),
            is_local: self.is_local,
            is_over: !self.is_wanted(),
            is_eligible: self.is_subscribed
                && self.is_wanted()
                && !self.half.is_ended()
                && !self.half.is_parked(),
            granted_at: self.granted_at,
        }
    }

    /// Returns the bytes that a credit of this task is worth: one element, where all take the same.
    pub(super) fn credit_bytes(&self) -> u64 {
        match self.half.element_bytes() {
            0 => CREDIT_BYTES_UNKNOWN,
            element_bytes => element_bytes,
        }
    }

    /// The task ended: its unused credits are free, and nothing of it is owed any more.
    pub(super) fn finish(&mut self) {
        self.is_finished = true;
        self.half.handle_link_lost();
    }

    /// Notes that the worker does not know the task.
    pub(super) fn note_unknown(&mut self, reason: &str, now: Instant, outages: &Outages) {
        let unknown = self.unknown.get_or_insert_with(|| Unknown::begin(now, outages));
        unknown.note_answer(reason, now);
    }
}
