//! The client's half of a subscription, which grants credits, orders arrivals, and counts them.
//!
//! Packs and messages travel on streams that are not ordered among each other. The client's half puts packs
//! back in order (D2.4). A message is held until the elements that the message counts have arrived (D5.4).
//! Links, time and the type of a pack's body (`B`) are unknown to this module.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, VecDeque};

use thiserror::Error;

use super::credit::{CreditError, Issuer};
use super::message::{Failure, Grant, Released, SplitDone, Subscribe, TaskId, ToClient};

/// The alignment of elements in a pack's region, in bytes.
const STRIDE_BYTES: u64 = 64;

/// Maximum number of messages that wait for elements. A worker that sends more violates the protocol.
const WAITING_MAX: usize = 1 << 16;

/// The number of received splits after which an acknowledgement is due, even if the client grants nothing.
const SPLITS_PER_ACKNOWLEDGEMENT: u64 = 64;

/// The number of received bytes, counted at the granted size of elements, after which an acknowledgement is
/// due. The limit is an eighth of the unacknowledged bytes that a worker keeps. Therefore a paused reader
/// does not hold up the worker's memory.
const BYTES_PER_ACKNOWLEDGEMENT: u64 = 8 << 20;

/// An arrival that the reader sees, in the order in which the worker produced it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrival<B> {
    /// Elements of the subscription, in order.
    Pack {
        /// The number of elements.
        elements: u64,
        /// The elements.
        body: B,
    },
    /// The end of a split, all of whose elements arrived before.
    SplitDone {
        /// The number of the lease that ended.
        lease: u64,
        /// The attempt number of the split.
        attempt: u32,
    },
    /// The task has no further elements.
    End,
    /// The task failed after the elements that arrived.
    Failed(Failure),
}

/// The error for a worker that violates the protocol. The client closes the link with this error.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum ReceiveError {
    /// The worker spent or gave back more credits than the client granted.
    #[error(transparent)]
    Credit(#[from] CreditError),
    /// A pack is larger than its credits pay for.
    #[error(
        "expected at most {element_bytes} bytes for each of {elements} elements, found a pack of {region_bytes} bytes"
    )]
    Oversized {
        /// The announced size of the pack, in bytes.
        region_bytes: u64,
        /// The announced number of elements.
        elements: u64,
        /// The maximum size of an element that a credit pays for, in bytes.
        element_bytes: u64,
    },
    /// A pack has no elements, or repeats elements that arrived before.
    #[error("expected elements from number {expected} on, found a pack of elements {first} to {end}")]
    Repeated {
        /// The number of the pack's first element.
        first: u64,
        /// The number after the pack's last element.
        end: u64,
        /// The number of elements that arrived before.
        expected: u64,
    },
    /// A pack contains an element beyond the last credit, whatever the number of outstanding credits.
    #[error(
        "expected elements below number {reach} only, found a pack of {elements} elements from number {first} on"
    )]
    Ungranted {
        /// The number of the pack's first element.
        first: u64,
        /// The number of elements in the pack.
        elements: u64,
        /// The number after the last element that was granted and not given back.
        reach: u64,
    },
    /// A count goes backwards or exceeds the granted credits, elements follow the end, or more messages wait
    /// than a correct worker sends.
    #[error("invalid cumulative count {count}: it contradicts earlier counts of the peer")]
    Contradiction {
        /// The invalid count.
        count: u64,
    },
}

/// The client's half of a subscription.
#[derive(Debug)]
pub struct ReceiveHalf<B> {
    task: TaskId,
    /// The number of subscribe messages sent so far.
    asked: u64,
    credit: Issuer,
    /// The bytes that a credit must pay for, according to the worker's latest reports.
    wanted_bytes: u64,
    /// The bytes that a granted credit pays for. The number never shrinks.
    granted_bytes: u64,
    /// The number of elements that `poll` has returned.
    next: u64,
    /// The number of elements that arrived without a gap. The elements that `poll` has not returned are in
    /// `ready`.
    contiguous: u64,
    early: BTreeMap<u64, (u64, B)>,
    ready: VecDeque<(u64, B)>,
    /// The messages that wait for the elements that they count, oldest first.
    waiting: VecDeque<(u64, Arrival<B>)>,
    splits: u64,
    /// The number of elements that the client has acknowledged, at most the number that arrived.
    acknowledged: u64,
    splits_acknowledged: u64,
    parked: bool,
    /// The count of elements at which the task ended or failed.
    ended_at: Option<u64>,
    /// The number of groups that every consumer has, or `None` if the task is not read in coordination.
    released: Option<u64>,
}

impl<B> ReceiveHalf<B> {
    /// Makes a subscription with no elements received.
    pub fn new(task: TaskId) -> Self {
        Self {
            task,
            asked: 0,
            credit: Issuer::default(),
            wanted_bytes: 0,
            granted_bytes: 0,
            next: 0,
            contiguous: 0,
            early: BTreeMap::new(),
            ready: VecDeque::new(),
            waiting: VecDeque::new(),
            splits: 0,
            acknowledged: 0,
            splits_acknowledged: 0,
            parked: false,
            ended_at: None,
            released: None,
        }
    }

    /// Makes the half of one consumer of a coordinated read. The consumer acknowledges every arrival at once
    /// (D7.4).
    pub fn coordinated(task: TaskId) -> Self {
        Self {
            released: Some(0),
            ..Self::new(task)
        }
    }

    /// Returns the message that opens the subscription on a link. The message asks for the elements after
    /// those that already arrived (D6.1).
    pub fn subscribe(&mut self, ticket: Vec<u8>) -> Subscribe {
        let asked_before = self.asked;
        self.asked += 1;
        Subscribe {
            task: self.task,
            ticket,
            resume_from: self.contiguous,
            splits_from: self.splits,
            trainer_id: None,
            asked_before,
        }
    }

    /// Grants `credits` more, each for an element of at least `element_bytes`.
    pub fn grant(&mut self, credits: u64, element_bytes: u64) -> Grant {
        self.granted_bytes = self.granted_bytes.max(element_bytes);
        self.credit.grant(credits);
        self.parked = false;
        self.acknowledge()
    }

    /// Returns the present limit and acknowledgement, for a client that grants nothing. The caller adds how
    /// many elements wait to be handed over (D4.6).
    pub fn acknowledge(&mut self) -> Grant {
        (self.acknowledged, self.splits_acknowledged) = (self.contiguous, self.splits);
        Grant {
            task: self.task,
            limit: self.credit.grant(0),
            element_bytes: self.granted_bytes,
            received: self.contiguous,
            splits: self.splits,
            waiting: None,
            handed: None,
        }
    }

    /// Returns whether enough arrived that the client must acknowledge at once (D6.5). A consumer of a
    /// coordinated read acknowledges every arrival, because all consumers may wait for the acknowledgement
    /// (D7.4).
    pub fn owes_acknowledgement(&self) -> bool {
        if self.released.is_some() {
            return self.is_unacknowledged();
        }
        let unacknowledged = self.contiguous - self.acknowledged;
        self.splits - self.splits_acknowledged >= SPLITS_PER_ACKNOWLEDGEMENT
            || unacknowledged.saturating_mul(self.granted_bytes) >= BYTES_PER_ACKNOWLEDGEMENT
    }

    /// Returns whether anything arrived that the client has not acknowledged. The client should acknowledge
    /// soon (D6.5).
    pub fn is_unacknowledged(&self) -> bool {
        self.contiguous > self.acknowledged || self.splits > self.splits_acknowledged
    }

    /// Books a pack whose header arrived, before memory is allocated for the pack (D2.3). An invalid pack
    /// changes nothing.
    pub fn admit(&mut self, first: u64, elements: u64, region_bytes: u64) -> Result<(), ReceiveError> {
        let reach = self.credit.reach();
        let Some(end) = first.checked_add(elements).filter(|end| *end <= reach) else {
            return Err(ReceiveError::Ungranted {
                first,
                elements,
                reach,
            });
        };
        if elements == 0 || first < self.contiguous {
            return Err(ReceiveError::Repeated {
                first,
                end,
                expected: self.contiguous,
            });
        }
        if self.ended_at.is_some_and(|ended_at| end > ended_at) {
            return Err(ReceiveError::Contradiction { count: end });
        }
        let worth = self.granted_bytes.checked_next_multiple_of(STRIDE_BYTES);
        if region_bytes > worth.unwrap_or(u64::MAX).saturating_mul(elements) {
            let element_bytes = self.granted_bytes;
            return Err(ReceiveError::Oversized {
                region_bytes,
                elements,
                element_bytes,
            });
        }
        self.credit.receive(elements)?;
        self.check_invariants();
        Ok(())
    }

    /// Takes the elements of a pack that [`Self::admit`] booked.
    pub fn handle_pack(&mut self, first: u64, elements: u64, body: B) -> Result<(), ReceiveError> {
        let end = first.saturating_add(elements);
        let repeated = ReceiveError::Repeated {
            first,
            end,
            expected: self.contiguous,
        };
        let overlaps_next = self
            .early
            .range(first..)
            .next()
            .is_some_and(|(&start, _)| start < end);
        let overlaps_before = self
            .early
            .range(..first)
            .next_back()
            .is_some_and(|(&start, &(elements, _))| start.saturating_add(elements) > first);
        if first < self.contiguous || overlaps_next || overlaps_before {
            return Err(repeated);
        }
        self.early.insert(first, (elements, body));
        while let Some(entry) = self.early.first_entry() {
            if *entry.key() != self.contiguous {
                break;
            }
            let (elements, body) = entry.remove();
            self.contiguous += elements;
            self.ready.push_back((elements, body));
        }
        self.check_invariants();
        Ok(())
    }

    /// Handles a message about this task. Returns the number of credits that the message gave back.
    pub fn handle(&mut self, message: ToClient) -> Result<u64, ReceiveError> {
        match message {
            ToClient::Yielded(yielded) => {
                self.parked = true;
                self.take_back(yielded.total)
            }
            ToClient::Need(need) => {
                self.parked = false;
                self.wanted_bytes = self.wanted_bytes.max(need.bytes);
                self.take_back(need.yielded)
            }
            ToClient::SplitDone(SplitDone {
                lease, attempt, upto, ..
            }) => {
                self.wait_for(upto, Arrival::SplitDone { lease, attempt })?;
                self.splits += 1;
                Ok(0)
            }
            ToClient::EndOfTask(end) => self.finish(end.sent, Arrival::End),
            ToClient::TaskError(error) => self.finish(error.sent, Arrival::Failed(error.failure)),
            ToClient::Accepted(accepted) => {
                self.wanted_bytes = self.wanted_bytes.max(accepted.element_bytes);
                Ok(0)
            }
            ToClient::Released(Released { groups, .. }) => self.release(groups),
            ToClient::Hello(_) | ToClient::Refused(_) => Ok(0),
        }
    }

    /// Returns the next arrival, in order.
    pub fn poll(&mut self) -> Option<Arrival<B>> {
        if let Some((count, _)) = self.waiting.front()
            && *count <= self.next
        {
            return self.waiting.pop_front().map(|(_, arrival)| arrival);
        }
        let (elements, body) = self.ready.pop_front()?;
        self.next += elements;
        Some(Arrival::Pack { elements, body })
    }

    /// Writes off the elements that were in flight when the link broke. Returns the number of credits that
    /// become free (D6.3).
    pub fn handle_link_lost(&mut self) -> u64 {
        let before = self.credit.outstanding() + self.credit.received();
        self.early.clear();
        let contiguous = self.contiguous;
        self.credit = Issuer::resumed_at(contiguous);
        self.parked = false;
        // An end that overtook elements is dropped here, because the worker sends the end again after the
        // elements. Until then the elements need credits. The end need not be the last waiting message: a
        // worker that breaks the protocol may have announced splits after it.
        let overtook = |(count, arrival): &(u64, Arrival<B>)| {
            *count > contiguous && matches!(arrival, Arrival::End | Arrival::Failed(_))
        };
        if let Some(place) = self.waiting.iter().position(overtook) {
            self.waiting.remove(place);
            self.ended_at = None;
        }
        // The next subscribe message states what has arrived, so all arrivals count as acknowledged.
        (self.acknowledged, self.splits_acknowledged) = (contiguous, self.splits);
        self.check_invariants();
        before - contiguous
    }

    /// Returns the number of credits granted and not given back whose elements have not arrived.
    pub fn outstanding(&self) -> u64 {
        self.credit.outstanding()
    }

    /// Returns the number of elements that arrived, in any order, and that `poll` has not returned.
    pub fn held(&self) -> u64 {
        self.credit.received() - self.next
    }

    /// Returns the number of elements that arrived without a gap.
    pub fn contiguous(&self) -> u64 {
        self.contiguous
    }

    /// Returns how many elements the client may hand over. In coordinated reads, the client may hand over the
    /// elements that every consumer has (D7.3), otherwise all elements.
    pub fn released(&self) -> u64 {
        self.released.unwrap_or(u64::MAX)
    }

    /// Returns whether the worker yielded its credits and has not announced an element since.
    pub fn is_parked(&self) -> bool {
        self.parked
    }

    /// Returns whether the worker announced the end of the task. Earlier arrivals may still wait for `poll`.
    pub fn is_ended(&self) -> bool {
        self.ended_at.is_some()
    }

    /// Returns the bytes that a further credit of this task must pay for, as far as the client knows.
    pub fn element_bytes(&self) -> u64 {
        self.wanted_bytes.max(self.granted_bytes)
    }

    /// Returns the bytes that each granted credit pays for. No larger element may arrive.
    pub fn granted_bytes(&self) -> u64 {
        self.granted_bytes
    }

    /// Books credits that the worker gave back. After the end no credit may be given back, because the
    /// elements before the end might need those credits (D5.1).
    fn take_back(&mut self, yielded: u64) -> Result<u64, ReceiveError> {
        if self.ended_at.is_some() {
            return Err(ReceiveError::Contradiction { count: yielded });
        }
        Ok(self.credit.take_back(yielded)?)
    }

    /// Notes the groups that every consumer has. Returns an error if this consumer lacks one of the groups,
    /// or if the read is not coordinated.
    fn release(&mut self, groups: u64) -> Result<u64, ReceiveError> {
        match &mut self.released {
            Some(released) if groups <= self.contiguous => {
                *released = groups.max(*released);
                Ok(0)
            }
            Some(_) | None => Err(ReceiveError::Contradiction { count: groups }),
        }
    }

    fn finish(&mut self, sent: u64, arrival: Arrival<B>) -> Result<u64, ReceiveError> {
        if self.ended_at.is_some() {
            return Ok(0);
        }
        let latest = self.early.last_key_value();
        let arrived = latest.map_or(self.contiguous, |(first, (elements, _))| first + elements);
        if sent < arrived {
            return Err(ReceiveError::Contradiction { count: sent });
        }
        self.wait_for(sent, arrival)?;
        self.ended_at = Some(sent);
        Ok(0)
    }

    /// Keeps an arrival until `count` elements have been polled. Returns an error if the credits do not reach
    /// to the count, because the client would wait forever (D5.4).
    fn wait_for(&mut self, count: u64, arrival: Arrival<B>) -> Result<(), ReceiveError> {
        let backwards = self.waiting.back().is_some_and(|(last, _)| *last > count);
        if backwards || count > self.credit.reach() || self.waiting.len() >= WAITING_MAX {
            return Err(ReceiveError::Contradiction { count });
        }
        self.waiting.push_back((count, arrival));
        self.check_invariants();
        Ok(())
    }

    /// Panics in debug builds if the counts contradict each other.
    pub(crate) fn check_invariants(&self) {
        self.credit.check_invariants();
        debug_assert!(self.next <= self.contiguous && self.contiguous <= self.credit.received());
        debug_assert!(self.acknowledged <= self.contiguous && self.splits_acknowledged <= self.splits);
        debug_assert!(
            self.early
                .keys()
                .next()
                .is_none_or(|first| *first > self.contiguous)
        );
        debug_assert!(self.waiting.len() <= WAITING_MAX);
        let reach = self.credit.reach();
        debug_assert!(
            self.ended_at
                .is_none_or(|end| end <= reach || end <= self.contiguous)
        );
    }
}
