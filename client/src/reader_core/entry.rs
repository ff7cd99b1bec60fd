//! The state of one task within a reader: its credits, its waiting elements, and its splits.
//!
//! This file does not know other tasks and the consumer.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use millstream_dataplane::proto::message::{Failure, Grant, Subscribe};
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
    /// The trainer name under which the task is read through the cross-trainer cache. Splits of such a task
    /// are not reported (D8.5).
    pub(super) trainer_id: Option<Arc<str>>,
    pub(super) layout: Option<Arc<Layout>>,
    /// The number of elements taken from the receiving half.
    pub(super) delivered: u64,
    /// The number of delivered elements that were not handed over.
    pub(super) polled: u64,
    /// The number of elements that were handed over and that the consumer keeps until elements of other tasks
    /// arrive.
    pub(super) kept: u64,
    pub(super) is_subscribed: bool,
    /// True if the link to the worker copies no payload.
    pub(super) is_local: bool,
    pub(super) is_removed: bool,
    /// The number of credits of a removed task whose elements may still arrive.
    pub(super) written_off: u64,
    pub(super) is_finished: bool,
    /// The failure that the dispatcher reported. Used if the worker does not report the failure itself.
    pub(super) failure: Option<Failure>,
    /// Whether the worker was asked for the task after the dispatcher reported the failure. Only the answer
    /// to such a request tells that the worker does not report the failure itself.
    is_asked_since_failure: bool,
    /// The repeated refusals of a worker that does not know the task; `None` while the worker has not refused
    /// it.
    pub(super) unknown: Option<Unknown>,
    /// The error with which reading fails once only given-up tasks remain; `None` while this task is not
    /// given up.
    pub(super) given_up: Option<ReadError>,
    pub(super) granted_at: u64,
    /// True if the task gave credits back because it had no elements, and has not requested new credits.
    pub(super) has_yielded: bool,
    /// Leases of splits that have delivered some elements and have more to come.
    pub(super) seen: BTreeSet<u64>,
    /// Leases of ended splits whose elements still wait, each with the number of elements delivered until the
    /// split's end.
    pub(super) done: BTreeMap<u64, u64>,
    /// Leases of ended splits that the dispatcher does not know to be done. Each lease follows the number of
    /// elements that the user must be done with first (D5.6). In coordinated reads, the number counts groups
    /// that must be released first (C9.9).
    pub(super) unconfirmed: VecDeque<(u64, u64)>,
    /// The number of elements that the user is done with, according to the last message to the worker.
    pub(super) used_told: u64,
    /// The state that only coordinated reads use.
    pub(super) in_turn: InTurn,
}

/// The elements of a task that a consumer of a coordinated read holds until the task's turn.
#[derive(Debug, Default)]
pub(super) struct InTurn {
    /// The arrived elements, in order.
    pub(super) queue: VecDeque<Delivery>,
    /// The pack that precedes the queue, and the index of its next element.
    pub(super) open: Option<(Pack, usize)>,
    /// The number of groups of a removed or ended task that may be handed over, if known.
    pub(super) frozen: Option<u64>,
    /// True if `frozen` is final, so that later elements are never handed over.
    pub(super) is_concluded: bool,
    /// The failure of the task, which the consumer receives after the released groups.
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
            is_asked_since_failure: false,
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

    /// Makes a delivery of elements that arrived in order, at `arrived`. Returns `None` before the worker has
    /// sent the specification of its elements.
    pub(super) fn deliver(&mut self, elements: u64, body: Body, arrived: Instant) -> Option<Delivery> {
        let layout = self.layout.clone()?;
        self.polled += elements;
        self.delivered += elements;
        Some(Delivery {
            task: self.source.task,
            worker: Arc::clone(&self.worker),
            layout,
            body,
            arrived,
        })
    }

    /// Books a pack whose header arrived. For a removed task, accepts packs within the written-off credits,
    /// whose elements are then dropped.
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

    /// Handles the removal of the task by the dispatcher, after which only elements that already arrived
    /// count.
    pub(super) fn remove(&mut self) {
        self.is_removed = true;
        self.written_off = self.half.outstanding();
        self.half.handle_link_lost();
    }

    /// Returns the message that opens or resumes the subscription. The message says which elements have
    /// already arrived.
    pub(super) fn subscribe(&mut self) -> Subscribe {
        self.is_asked_since_failure = self.failure.is_some();
        Subscribe {
            trainer_id: self.trainer_id.as_deref().map(str::to_owned),
            ..self.half.subscribe(self.source.ticket.clone())
        }
    }

    /// Returns an acknowledgement of the elements and ends of splits that arrived since the last one; the
    /// worker keeps all of them until then (D6.5). The message also reports `used`, the number of elements
    /// that the user is done with (D5.6). Returns `None` if neither has changed.
    pub(super) fn acknowledgement(&mut self, used: u64) -> Option<Grant> {
        let is_behind = self.half.is_unacknowledged() || used > self.used_told;
        let is_due = self.is_subscribed && self.is_wanted() && is_behind;
        is_due.then(|| self.half.acknowledge())
    }

    /// Returns whether the worker may still report the task's failure, after the elements that it sent
    /// before. In a coordinated read the worker reports the failure to every consumer, however late (C9.7). A
    /// worker that did not know the task at first may know it now.
    pub(super) fn may_hear_of_failure(&self, is_coordinated: bool) -> bool {
        match is_coordinated {
            true => self.unknown.is_none() || !self.is_asked_since_failure,
            false => self.layout.is_some() && self.unknown.is_none(),
        }
    }

    /// Returns the error of the task's failure if the dispatcher reported the failure.
    pub(super) fn told_failure(&self) -> Option<ReadError> {
        let failure = self.failure.clone()?;
        Some(ReadError::task(&self.worker, failure))
    }

    /// Handles the loss of the link to the worker.
    pub(super) fn handle_link_lost(&mut self) {
        self.half.handle_link_lost();
        self.is_subscribed = false;
        (self.unknown, self.given_up) = (None, None);
        self.written_off = 0;
    }

    /// Notes that a split ended after the elements delivered so far.
    pub(super) fn note_done(&mut self, lease: u64) {
        self.seen.remove(&lease);
        self.done.insert(lease, self.delivered);
    }

    /// Returns how many elements, counted from the first, the user is done with (D5.6). `is_in_use` says that
    /// the user may still use the latest element.
    pub(super) fn used(&self, is_in_use: bool) -> u64 {
        (self.delivered - self.polled).saturating_sub(u64::from(is_in_use))
    }

    /// Removes and returns the splits that ended within the first `used` elements, which the user is done
    /// with.
    pub(super) fn confirm(&mut self, used: u64) -> impl Iterator<Item = u64> + use<> {
        let due = self.unconfirmed.partition_point(|(upto, _)| *upto <= used);
        let confirmed: Vec<u64> = self.unconfirmed.drain(..due).map(|(_, lease)| lease).collect();
        confirmed.into_iter()
    }

    /// Lets an ended split of a coordinated read wait for its groups. Its last elements, at other consumers,
    /// may be in the group after this consumer's latest one (C9.9).
    pub(super) fn await_release(&mut self, lease: u64) {
        self.unconfirmed.push_back((self.delivered + 1, lease));
    }

    /// Removes and returns the splits of a coordinated read whose groups are all released (C9.9). At the end
    /// of the task, these are all splits.
    pub(super) fn confirm_released(&mut self, has_ended: bool) -> impl Iterator<Item = u64> + use<> {
        let all = has_ended.then_some(u64::MAX);
        self.confirm(all.unwrap_or_else(|| self.half.released()))
    }

    /// Counts the ended splits of a removed task as seen in part if their groups are not released. The
    /// consumers may give these groups up (C9.5).
    pub(super) fn reopen_unconfirmed(&mut self) {
        for (_, lease) in self.unconfirmed.drain(..) {
            self.done.remove(&lease);
            self.seen.insert(lease);
        }
    }

    /// Returns the ended splits that the user is not done with.
    pub(super) fn waiting_splits(&self) -> impl Iterator<Item = u64> + '_ {
        self.unconfirmed.iter().map(|(_, lease)| *lease)
    }

    /// Forgets the ended splits that have no waiting elements.
    pub(super) fn forget_done(&mut self) {
        let handed = self.delivered - self.polled;
        self.done.retain(|_, position| *position > handed);
    }

    /// Returns the number of groups of a coordinated read that may be handed over (D7.3).
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

    /// Returns the bytes that a credit of this task is worth: the size of one element, if known.
    pub(super) fn credit_bytes(&self) -> u64 {
        match self.half.element_bytes() {
            0 => CREDIT_BYTES_UNKNOWN,
            element_bytes => element_bytes,
        }
    }

    /// Handles the end of the task: frees its unused credits, and expects no further messages.
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
