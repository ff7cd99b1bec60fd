//! The worker's half of a subscription, which decides which elements to send next and which to keep until
//! they are acknowledged.
//!
//! The module owns the order of one task's elements on their way to one client, over any number of links. The
//! caller passes in the elements and the time. Links and the origin of elements are unknown to this module.
//!
//! The caller first calls `resume`, once for each link. After every change the caller calls `poll_next` until
//! it returns [`Next::Nothing`], and answers [`Next::Fresh`] with `spend` or `starve`. When the time of
//! `poll_timeout` has come, the caller calls `handle_timeout`.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use millstream_element::Pack;
use thiserror::Error;

use super::credit::Holder;
use super::message::{
    EndOfTask, Failure, Grant, Need, Released, SplitDone, TaskError, TaskId, ToClient, Yielded,
};

/// Maximum number of splits that are kept until they are acknowledged. Ends of further splits are not booked
/// (D5.2).
const SPLITS_MAX: usize = 4096;

/// The limits of a [`SendHalf`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendLimits {
    /// The time for which the task may have no element ready before the worker gives its credits back (D4.3).
    pub patience: Duration,
    /// Maximum bytes of sent elements kept until they are acknowledged. At the maximum no fresh pack is sent;
    /// the last pack may exceed the maximum (D6.5).
    pub unacknowledged_bytes: u64,
}

/// A pack of elements of one task on the way to one client, side by side in one slot. On links `P` is the
/// form in which the pack is transferred.
#[derive(Debug, Clone)]
pub struct TaskPack<P = Pack> {
    /// The task that produced the elements.
    pub task: TaskId,
    /// The number of elements of this subscription sent before this pack (D5.4).
    pub first: u64,
    /// The elements.
    pub pack: P,
}

/// The next step that [`SendHalf::poll_next`] asks the caller to take.
#[derive(Debug)]
pub enum Next {
    /// The caller should send this pack again. The link broke before the client acknowledged the pack.
    Resend(TaskPack),
    /// The caller should take up to `elements` elements from the task, each of at most `element_bytes`. The
    /// caller answers with `spend`, `starve` or `handle_ending`.
    Fresh {
        /// The number of available credits. If it is 0, the caller only checks whether the task ended or an
        /// element is ready.
        elements: u64,
        /// The maximum size of an element that a credit pays for, in bytes.
        element_bytes: u64,
    },
    /// The caller should send this message to the client and poll again.
    Tell(ToClient),
    /// No step is possible until something changes.
    Nothing,
}

/// The reason why the task could not provide fresh elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// The task has no element ready.
    Empty,
    /// The next element has this size, but no credit is large enough, or no credit is left.
    NoCredit {
        /// The size of the next element, in bytes.
        bytes: u64,
    },
}

/// The error for a client that asks to resume at elements that are no longer kept or were never sent (D6.4).
/// Either the client violates the protocol, or it was away for too long.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[error("cannot resume at element {from}: expected a position from {kept} to {sent}")]
pub struct CannotResume {
    /// The requested position.
    pub from: u64,
    /// The number of the first element that is still kept.
    pub kept: u64,
    /// The number of elements sent in total.
    pub sent: u64,
}

/// The error for a client that acknowledged elements or splits that were never sent to it.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[error(
    "expected an acknowledgement of at most {sent} elements and {marked} splits, found {received} and {splits}"
)]
pub struct FalseAcknowledgement {
    /// The number of elements acknowledged.
    pub received: u64,
    /// The number of splits acknowledged.
    pub splits: u64,
    /// The number of elements sent.
    pub sent: u64,
    /// The number of `SplitDone` messages sent.
    pub marked: u64,
}

/// The way in which a task ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The task has no further elements.
    Exhausted,
    /// The task failed.
    Failed(Failure),
}

/// The worker's half of a subscription.
#[derive(Debug)]
pub struct SendHalf {
    task: TaskId,
    limits: SendLimits,
    credit: Holder,
    element_bytes: u64,
    /// The packs that were sent and not acknowledged, oldest first. The first `resent` packs were sent on the
    /// present link.
    kept: VecDeque<TaskPack>,
    resent: usize,
    /// The bytes of `kept`, including the gaps between elements.
    kept_bytes: u64,
    acknowledged: u64,
    /// The ends of splits that were not acknowledged, oldest first. The first `splits_told` ends of splits
    /// were sent on the present link.
    splits: VecDeque<SplitDone>,
    splits_told: usize,
    splits_acknowledged: u64,
    idle_since: Option<Instant>,
    /// True if credits were given back and no element was announced since.
    parked: bool,
    ending: Option<Ending>,
    ending_told: bool,
    /// The number of groups that every consumer has, 0 outside coordinated reads. `released_told` is the
    /// number sent to the client on the present link.
    released: u64,
    released_told: u64,
}

impl SendHalf {
    /// Makes a subscription with no elements sent.
    pub fn new(task: TaskId, limits: SendLimits) -> Self {
        Self {
            task,
            limits,
            credit: Holder::default(),
            element_bytes: 0,
            kept: VecDeque::new(),
            resent: 0,
            kept_bytes: 0,
            acknowledged: 0,
            splits: VecDeque::new(),
            splits_told: 0,
            splits_acknowledged: 0,
            idle_since: None,
            parked: false,
            ending: None,
            ending_told: false,
            released: 0,
            released_told: 0,
        }
    }

    /// Starts on a new link after the `from` elements and `splits_from` splits that the client already has
    /// (D6.1).
    pub fn resume(&mut self, from: u64, splits_from: u64) -> Result<(), CannotResume> {
        let sent = self.sent();
        let refusal = CannotResume {
            from,
            kept: self.acknowledged,
            sent,
        };
        let marked = self.splits_acknowledged + self.splits.len() as u64;
        if from < self.acknowledged
            || from > sent
            || splits_from < self.splits_acknowledged
            || splits_from > marked
        {
            return Err(refusal);
        }
        self.forget_elements(from);
        self.forget_splits(splits_from);
        self.credit = Holder::resumed_at(from);
        (self.resent, self.splits_told) = (0, 0);
        (self.idle_since, self.parked, self.ending_told) = (None, false, false);
        self.released_told = 0;
        self.check_invariants();
        Ok(())
    }

    /// Books a grant and the acknowledgement in the grant (D4.1, D6.2).
    pub fn handle_grant(&mut self, grant: &Grant) -> Result<(), FalseAcknowledgement> {
        let (sent, marked) = (
            self.credit.sent(),
            self.splits_acknowledged + self.splits_told as u64,
        );
        if grant.received > sent || grant.splits > marked {
            return Err(FalseAcknowledgement {
                received: grant.received,
                splits: grant.splits,
                sent,
                marked,
            });
        }
        self.forget_elements(grant.received);
        self.forget_splits(grant.splits);
        self.element_bytes = self.element_bytes.max(grant.element_bytes);
        // A grant that crosses a yield does not end the parking: the client grants nothing more until the
        // worker announces an element (D4.4).
        self.credit.raise_to(grant.limit);
        self.check_invariants();
        Ok(())
    }

    /// Returns the number of ends of splits that can be booked before the client acknowledges earlier ends.
    pub fn split_room(&self) -> usize {
        SPLITS_MAX.saturating_sub(self.splits.len())
    }

    /// Books the end of a split whose elements were all sent, to this client or to other clients. The caller
    /// must have checked [`SendHalf::split_room`].
    pub fn handle_split_done(&mut self, lease: u64, attempt: u32) {
        self.splits.push_back(SplitDone {
            task: self.task,
            lease,
            attempt,
            upto: self.sent(),
        });
        self.check_invariants();
    }

    /// Books the number of groups that every consumer has, including this consumer (D7.3).
    pub fn handle_released(&mut self, groups: u64) {
        self.released = self.released.max(groups);
        self.check_invariants();
    }

    /// Books the end of the task. No fresh element follows. In a coordinated read, the client is first told
    /// of the `released` groups that every consumer has (D7.5); otherwise the number is 0.
    pub fn handle_ending(&mut self, ending: Ending, released: u64) {
        self.handle_released(released);
        self.ending.get_or_insert(ending);
    }

    /// Returns the next step that the caller should take.
    pub fn poll_next(&mut self) -> Next {
        if self.released_told < self.released {
            self.released_told = self.released;
            let (task, groups) = (self.task, self.released);
            return Next::Tell(ToClient::Released(Released { task, groups }));
        }
        if let Some(split) = self.splits.get(self.splits_told) {
            // The end of a split is sent only after the elements that it counts (D5.2).
            if split.upto <= self.credit.sent() {
                self.splits_told += 1;
                return Next::Tell(ToClient::SplitDone(*split));
            }
        }
        let elements = self.credit.available();
        if self.resent < self.kept.len() {
            return self.next_resend(elements);
        }
        if let Some(ending) = &self.ending {
            if self.ending_told {
                return Next::Nothing;
            }
            self.ending_told = true;
            // At the end of the task the client takes its unspent credits back by itself. A yield after the
            // end would return the same credits twice.
            self.idle_since = None;
            let sent = self.sent();
            return Next::Tell(match ending {
                Ending::Exhausted => ToClient::EndOfTask(EndOfTask {
                    task: self.task,
                    sent,
                }),
                Ending::Failed(failure) => ToClient::TaskError(TaskError {
                    task: self.task,
                    sent,
                    failure: failure.clone(),
                }),
            });
        }
        if self.kept_bytes >= self.limits.unacknowledged_bytes {
            return Next::Nothing;
        }
        Next::Fresh {
            elements,
            element_bytes: self.element_bytes,
        }
    }

    /// Books fresh elements that the worker sends now. The caller must not take more elements than
    /// [`Next::Fresh`] asked for.
    pub fn spend(&mut self, pack: Pack) -> TaskPack {
        let out = TaskPack {
            task: self.task,
            first: self.credit.sent(),
            pack,
        };
        self.credit.spend(out.pack.len() as u64);
        self.kept_bytes += strides_bytes(&out.pack);
        self.kept.push_back(out.clone());
        self.resent = self.kept.len();
        self.idle_since = None;
        self.check_invariants();
        out
    }

    /// Books that the task could not provide the requested elements. Returns the message to send to the
    /// client, if any (D4.3, D4.4).
    pub fn starve(&mut self, shortage: Shortage, now: Instant) -> Option<ToClient> {
        match shortage {
            Shortage::Empty => {
                if self.credit.available() > 0 {
                    self.idle_since.get_or_insert(now);
                }
                None
            }
            Shortage::NoCredit { bytes } => self.announce(bytes),
        }
    }

    /// Returns the time at which `handle_timeout` is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.idle_since.map(|since| since + self.limits.patience)
    }

    /// Gives the credits back if the patience has expired (D4.3).
    pub fn handle_timeout(&mut self, now: Instant) -> Option<ToClient> {
        if self.poll_timeout().is_none_or(|due| now < due) {
            return None;
        }
        self.idle_since = None;
        if self.credit.available() == 0 {
            return None;
        }
        self.parked = true;
        Some(ToClient::Yielded(Yielded {
            task: self.task,
            total: self.credit.yield_all(),
        }))
    }

    /// Returns the number of elements of the subscription sent at least once.
    pub fn sent(&self) -> u64 {
        self.kept
            .back()
            .map_or(self.acknowledged, |last| last.first + last.pack.len() as u64)
    }

    /// Returns the number of elements that the client has acknowledged, from the first element on.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Returns the number of credits that are not spent.
    pub fn unspent(&self) -> u64 {
        self.credit.available()
    }

    fn next_resend(&mut self, elements: u64) -> Next {
        let Some(waiting) = self.kept.get_mut(self.resent) else {
            return Next::Nothing;
        };
        if elements == 0 {
            return Next::Nothing;
        }
        let count = waiting.pack.fitting(elements as usize, self.element_bytes);
        // Each kept element was once sent under a credit that paid for it, and the bytes that a credit pays
        // for never shrink.
        debug_assert!(
            count > 0,
            "a kept element is larger than the credit that paid for it"
        );
        let count = count.max(1);
        let first = waiting.first;
        let pack = waiting.pack.split_to(count);
        let out = TaskPack {
            task: self.task,
            first,
            pack,
        };
        if waiting.pack.is_empty() {
            *waiting = out.clone();
        } else {
            waiting.first += count as u64;
            self.kept.insert(self.resent, out.clone());
        }
        self.resent += 1;
        self.credit.spend(count as u64);
        self.check_invariants();
        Next::Resend(out)
    }

    fn announce(&mut self, bytes: u64) -> Option<ToClient> {
        if self.credit.available() == 0 && !self.parked {
            return None;
        }
        self.parked = false;
        self.idle_since = None;
        Some(ToClient::Need(Need {
            task: self.task,
            bytes,
            yielded: self.credit.yield_all(),
        }))
    }

    fn forget_elements(&mut self, received: u64) {
        self.acknowledged = self.acknowledged.max(received);
        while let Some(oldest) = self.kept.front_mut() {
            let end = oldest.first + oldest.pack.len() as u64;
            if end > received {
                if oldest.first < received {
                    let known = oldest.pack.split_to((received - oldest.first) as usize);
                    oldest.first = received;
                    self.kept_bytes -= strides_bytes(&known);
                }
                return;
            }
            self.kept_bytes -= strides_bytes(&oldest.pack);
            self.kept.pop_front();
            self.resent = self.resent.saturating_sub(1);
        }
    }

    fn forget_splits(&mut self, acknowledged: u64) {
        while self.splits_acknowledged < acknowledged && self.splits.pop_front().is_some() {
            self.splits_acknowledged += 1;
            self.splits_told = self.splits_told.saturating_sub(1);
        }
    }

    /// Panics in debug builds if the queue contradicts its counts. In this crate's tests the method also
    /// walks the whole queue.
    pub(crate) fn check_invariants(&self) {
        self.credit.check_invariants();
        debug_assert!(self.resent <= self.kept.len() && self.splits_told <= self.splits.len());
        debug_assert!(self.splits.len() <= SPLITS_MAX);
        debug_assert!(self.released_told <= self.released && self.released <= self.acknowledged);
        let first = self.kept.front().map_or(self.sent(), |oldest| oldest.first);
        debug_assert_eq!(first, self.acknowledged);
        if cfg!(test) {
            let mut next = self.acknowledged;
            for pack in &self.kept {
                assert!(
                    pack.first == next && !pack.pack.is_empty(),
                    "the kept packs have a gap at element {next}"
                );
                next += pack.pack.len() as u64;
            }
            assert_eq!(next, self.sent());
            let bytes: u64 = self.kept.iter().map(|kept| strides_bytes(&kept.pack)).sum();
            assert_eq!(bytes, self.kept_bytes);
            let told: u64 = self
                .kept
                .iter()
                .take(self.resent)
                .map(|kept| kept.pack.len() as u64)
                .sum();
            assert_eq!(self.acknowledged + told, self.credit.sent());
        }
    }
}

/// Returns the bytes of a pack, including the gap after its last element. With this gap the sizes of a pack's
/// parts add up to the size of the pack.
pub(crate) fn strides_bytes(pack: &Pack) -> u64 {
    pack.region().len().next_multiple_of(64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the test counts from an arbitrary instant"
    )]
    fn nothing_is_given_back_behind_the_end() {
        let (task, start) = (TaskId(1), Instant::now());
        let limits = SendLimits {
            patience: Duration::from_millis(50),
            unacknowledged_bytes: u64::MAX,
        };
        let mut half = SendHalf::new(task, limits);
        half.handle_grant(&Grant {
            task,
            limit: 8,
            element_bytes: 64,
            received: 0,
            splits: 0,
            waiting: None,
            handed: None,
        })
        .unwrap();
        assert!(half.starve(Shortage::Empty, start).is_none());
        assert!(
            half.poll_timeout().is_some(),
            "the timeout of the patience is not set"
        );
        half.handle_ending(Ending::Exhausted, 0);
        assert!(matches!(half.poll_next(), Next::Tell(ToClient::EndOfTask(_))));
        assert_eq!(half.poll_timeout(), None);
        assert!(half.handle_timeout(start + Duration::from_secs(1)).is_none());
    }
}
