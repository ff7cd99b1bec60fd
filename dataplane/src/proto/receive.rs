//! The client's half of a subscription: grants, the order of what arrives, and when it counts.
//!
//! Packs and messages travel on streams that are not ordered among each other. This half puts packs back in
//! order (D2.4) and holds what a message says until the elements it counts are there (D5.4). Refuses to know
//! links, time, and what a pack's body is (`B`).
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::{BTreeMap, VecDeque};

use thiserror::Error;

use super::credit::{CreditError, Issuer};
use super::message::{Failure, Grant, Released, SplitDone, Subscribe, TaskId, ToClient};

/// Elements start at multiples of this in a pack's region, in bytes.
const STRIDE_BYTES: u64 = 64;

/// Splits that may end without an element having arrived since; beyond it the worker misbehaves.
const WAITING_MAX: usize = 1 << 16;

/// Splits after which an acknowledgement is due even if no element is granted.
const SPLITS_PER_ACKNOWLEDGEMENT: u64 = 64;

/// Bytes after which it is due as well, as granted for: an eighth of what a worker keeps unacknowledged, so
/// that a reader that pauses holds up no worker's memory.
const BYTES_PER_ACKNOWLEDGEMENT: u64 = 8 << 20;

/// An arrival that the reader sees, in the order in which it happened at the worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrival<B> {
    /// Elements, in order.
    Pack {
        /// The number of elements.
        elements: u64,
        /// The elements.
        body: B,
    },
    /// A split all of whose elements arrived before.
    SplitDone {
        /// The lease that ended.
        lease: u64,
        /// The number of the attempt at the split.
        attempt: u32,
    },
    /// The task has no further elements.
    End,
    /// The task failed behind the elements that arrived.
    Failed(Failure),
}

/// The violation of the protocol by a worker. The link is closed with it.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum ReceiveError {
    /// Credits were overspent or made up.
    #[error(transparent)]
    Credit(#[from] CreditError),
    /// A pack is larger than the credits it takes are worth.
    #[error(
        "peer announced {region_bytes} bytes for {elements} elements although a credit is worth {element_bytes} bytes"
    )]
    Oversized {
        /// Bytes announced.
        region_bytes: u64,
        /// Elements announced.
        elements: u64,
        /// The bytes that a credit is worth.
        element_bytes: u64,
    },
    /// A pack without elements, or one that repeats elements.
    #[error("peer sent elements {first} to {end} although {expected} are already there")]
    Repeated {
        /// First element of the pack.
        first: u64,
        /// One behind its last.
        end: u64,
        /// Elements already there.
        expected: u64,
    },
    /// A pack of elements that no credit was granted for, whatever their number.
    #[error("peer sent elements {first} and {elements} more although credits reach to {reach} only")]
    Ungranted {
        /// First element of the pack.
        first: u64,
        /// Elements in it.
        elements: u64,
        /// One behind the last element that was granted and not given back.
        reach: u64,
    },
    /// A count that goes backwards or beyond what was granted, elements behind the end, or more waiting
    /// messages than any correct worker sends.
    #[error("peer's cumulative counts contradict each other at {count}")]
    Contradiction {
        /// The offending count.
        count: u64,
    },
}

/// The client's half of a subscription.
#[derive(Debug)]
pub struct ReceiveHalf<B> {
    task: TaskId,
    /// The number of times that the subscription was asked for.
    asked: u64,
    credit: Issuer,
    /// The bytes that a credit would have to be worth, as far as the worker said.
    wanted_bytes: u64,
    /// The bytes that the granted credits are worth; never shrinks.
    granted_bytes: u64,
    /// Elements seen by `poll`.
    next: u64,
    /// Elements that arrived without a gap; those above `next` are in `ready`.
    contiguous: u64,
    early: BTreeMap<u64, (u64, B)>,
    ready: VecDeque<(u64, B)>,
    /// Messages that wait for the elements they count, oldest first.
    waiting: VecDeque<(u64, Arrival<B>)>,
    splits: u64,
    /// The elements and splits that the worker knows to have arrived; never more than did.
    acknowledged: u64,
    splits_acknowledged: u64,
    parked: bool,
    /// The count at which the task ended or failed.
    ended_at: Option<u64>,
    /// Groups that every consumer has; none where the task is not read in coordination.
    released: Option<u64>,
}

impl<B> ReceiveHalf<B> {
    /// A subscription at its beginning.
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

    /// Makes the half of one consumer of a coordinated read, whose worker hears of every arrival at once
    /// (D7.4).
    pub fn coordinated(task: TaskId) -> Self {
        Self {
            released: Some(0),
            ..Self::new(task)
        }
    }

    /// The message that opens the subscription on a link, at its beginning or behind what is already here
    /// (D6.1).
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

    /// Grants `credits` more, each worth `element_bytes` at least.
    pub fn grant(&mut self, credits: u64, element_bytes: u64) -> Grant {
        self.granted_bytes = self.granted_bytes.max(element_bytes);
        self.credit.grant(credits);
        self.parked = false;
        self.acknowledge()
    }

    /// The present limit and acknowledgement, for when nothing is granted. The caller that hands elements
    /// over adds how many wait for that (D4.6).
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

    /// Returns whether so much arrived that the worker should hear of it at once (D6.5), which all others may
    /// wait for (D7.4).
    pub fn owes_acknowledgement(&self) -> bool {
        if self.released.is_some() {
            return self.is_unacknowledged();
        }
        let unacknowledged = self.contiguous - self.acknowledged;
        self.splits - self.splits_acknowledged >= SPLITS_PER_ACKNOWLEDGEMENT
            || unacknowledged.saturating_mul(self.granted_bytes) >= BYTES_PER_ACKNOWLEDGEMENT
    }

    /// Returns whether anything arrived that the worker does not know of: it should hear of it soon (D6.5).
    pub fn is_unacknowledged(&self) -> bool {
        self.contiguous > self.acknowledged || self.splits > self.splits_acknowledged
    }

    /// Books a pack whose header arrived, before memory is taken for it (D2.3). A pack that fails changes
    /// nothing.
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

    /// Takes an admitted pack.
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

    /// Takes a message about this task. Returns the number of credits it gave back.
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

    /// Writes off what was on its way when the link broke and returns how many credits that frees (D6.3).
    pub fn handle_link_lost(&mut self) -> u64 {
        let before = self.credit.outstanding() + self.credit.received();
        self.early.clear();
        let contiguous = self.contiguous;
        self.credit = Issuer::resumed_at(contiguous);
        self.parked = false;
        // An end that overtook elements is told again after them, and they need credits until then. It need
        // not stand last: a worker that breaks the protocol names splits after it.
        let overtook = |(count, arrival): &(u64, Arrival<B>)| {
            *count > contiguous && matches!(arrival, Arrival::End | Arrival::Failed(_))
        };
        if let Some(place) = self.waiting.iter().position(overtook) {
            self.waiting.remove(place);
            self.ended_at = None;
        }
        // The next subscription says what is here.
        (self.acknowledged, self.splits_acknowledged) = (contiguous, self.splits);
        self.check_invariants();
        before - contiguous
    }

    /// Credits granted whose elements have not arrived and that were not given back.
    pub fn outstanding(&self) -> u64 {
        self.credit.outstanding()
    }

    /// Elements that arrived, in whatever order, and were not yet seen by `poll`.
    pub fn held(&self) -> u64 {
        self.credit.received() - self.next
    }

    /// Elements that arrived without a gap.
    pub fn contiguous(&self) -> u64 {
        self.contiguous
    }

    /// Elements that may be handed over: in coordinated reads those that every consumer has (D7.3), else all.
    pub fn released(&self) -> u64 {
        self.released.unwrap_or(u64::MAX)
    }

    /// Returns whether the worker said that nothing is ready and has not said otherwise since.
    pub fn is_parked(&self) -> bool {
        self.parked
    }

    /// Returns whether the worker said that nothing follows; what arrived before may still wait in `poll`.
    pub fn is_ended(&self) -> bool {
        self.ended_at.is_some()
    }

    /// Returns the bytes that a further credit of this task must be worth, as far as they are known.
    pub fn element_bytes(&self) -> u64 {
        self.wanted_bytes.max(self.granted_bytes)
    }

    /// Returns the bytes that each granted credit is worth: no larger element may arrive.
    pub fn granted_bytes(&self) -> u64 {
        self.granted_bytes
    }

    /// Behind the end nothing is given back (D5.1): the elements up to it might need those credits.
    fn take_back(&mut self, yielded: u64) -> Result<u64, ReceiveError> {
        if self.ended_at.is_some() {
            return Err(ReceiveError::Contradiction { count: yielded });
        }
        Ok(self.credit.take_back(yielded)?)
    }

    /// Notes the groups that every consumer has. This consumer has them too, and hears of them only where
    /// there are others.
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

    /// A count can be waited for only if credits reach to it (D5.4): another would be waited for without end.
    fn wait_for(&mut self, count: u64, arrival: Arrival<B>) -> Result<(), ReceiveError> {
        let backwards = self.waiting.back().is_some_and(|(last, _)| *last > count);
        if backwards || count > self.credit.reach() || self.waiting.len() >= WAITING_MAX {
            return Err(ReceiveError::Contradiction { count });
        }
        self.waiting.push_back((count, arrival));
        self.check_invariants();
        Ok(())
    }

    /// Debug builds stop at counts that contradict each other.
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
