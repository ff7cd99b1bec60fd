//! The worker's half of a subscription: which elements go next, which are kept until they are acknowledged.
//!
//! Owns the order of one client's elements of one task, over as many links as it takes. Refuses to know where
//! elements come from, what a link is, and what time it is: it is told.
//!
//! Call order: `resume` once for each link; then, whenever something changed, `poll_next` until it asks for
//! nothing more, answering [`Next::Fresh`] with `spend` or `starve`; `handle_timeout` when `poll_timeout` is
//! due.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use millstream_element::Pack;
use thiserror::Error;

use super::credit::Holder;
use super::message::{
    EndOfTask, Failure, Grant, Need, Released, SplitDone, TaskError, TaskId, ToClient, Yielded,
};

/// Splits kept until they are acknowledged; more are not booked (D5.2).
const SPLITS_MAX: usize = 4096;

/// The habits of a [`SendHalf`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendLimits {
    /// The time for which the task may have nothing ready before its credits go back (D4.3).
    pub patience: Duration,
    /// Bytes kept until they are acknowledged, after which nothing fresh is sent; one pack may go beyond
    /// (D6.5).
    pub unacknowledged_bytes: u64,
}

/// Elements of one task on their way to one client, side by side in one slot.
#[derive(Debug, Clone)]
pub struct TaskPack {
    /// The task they belong to.
    pub task: TaskId,
    /// Elements of this subscription sent before them (D5.4).
    pub first: u64,
    /// The elements.
    pub pack: Pack,
}

/// The next step that [`SendHalf::poll_next`] wants.
#[derive(Debug)]
pub enum Next {
    /// Send this pack again: the link it went out on broke before it was acknowledged.
    Resend(TaskPack),
    /// Take up to `elements` from the task, none above `element_bytes`, and answer with `spend`, `starve` or
    /// `handle_ending`.
    Fresh {
        /// Credits at hand; with none, only the end of the task is of interest, or that an element is ready.
        elements: u64,
        /// The bytes that a credit is worth.
        element_bytes: u64,
    },
    /// Tell the client, then ask again.
    Tell(ToClient),
    /// Nothing can be done until something changes.
    Nothing,
}

/// The reason why the task could not give fresh elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shortage {
    /// Nothing is ready.
    Empty,
    /// The next element has this size, and no credit held is worth it.
    NoCredit {
        /// The size, in bytes.
        bytes: u64,
    },
}

/// A place that sending cannot resume at (D6.4); the client's fault, or it stayed away too long.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[error("cannot resume at element {from}: elements {kept} to {sent} are at hand")]
pub struct CannotResume {
    /// The place asked for.
    pub from: u64,
    /// The first element still kept.
    pub kept: u64,
    /// Elements sent in all.
    pub sent: u64,
}

/// The client acknowledged what it was never sent.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
#[error(
    "peer acknowledged {received} elements and {splits} splits although only {sent} and {marked} were sent"
)]
pub struct FalseAcknowledgement {
    /// Elements acknowledged.
    pub received: u64,
    /// Splits acknowledged.
    pub splits: u64,
    /// Elements sent.
    pub sent: u64,
    /// Splits told of.
    pub marked: u64,
}

/// The end of a task.
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
    /// Sent and not acknowledged, oldest first; the first `resent` of them went out on the present link.
    kept: VecDeque<TaskPack>,
    resent: usize,
    /// Bytes of `kept`, gaps between elements included.
    kept_bytes: u64,
    acknowledged: u64,
    /// Splits told of and not acknowledged, oldest first; the first `splits_told` of them on the present
    /// link.
    splits: VecDeque<SplitDone>,
    splits_told: usize,
    splits_acknowledged: u64,
    idle_since: Option<Instant>,
    /// Credits were given back and no element was announced since.
    parked: bool,
    ending: Option<Ending>,
    ending_told: bool,
    /// Groups that every consumer has, and how many of them were told on the present link; 0 but in
    /// coordinated reads.
    released: u64,
    released_told: u64,
}

impl SendHalf {
    /// A subscription at its beginning.
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

    /// Starts on a new link behind the `from` elements and `splits_from` splits that the client has (D6.1).
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

    /// Books a grant and the acknowledgement in it (D4.1, D6.2).
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
        // One that crosses a yield ends no parking: the client grants nothing more until it hears of an
        // element (D4.4).
        self.credit.raise_to(grant.limit);
        self.check_invariants();
        Ok(())
    }

    /// Ends of splits that can be booked before the client acknowledges earlier ones.
    pub fn split_room(&self) -> usize {
        SPLITS_MAX.saturating_sub(self.splits.len())
    }

    /// Books the end of a split whose elements were all sent, to this client or to others. The caller looked
    /// at [`SendHalf::split_room`].
    pub fn handle_split_done(&mut self, lease: u64, attempt: u32) {
        self.splits.push_back(SplitDone {
            task: self.task,
            lease,
            attempt,
            upto: self.sent(),
        });
        self.check_invariants();
    }

    /// Books how many groups every consumer has, this one included (D7.3).
    pub fn handle_released(&mut self, groups: u64) {
        self.released = self.released.max(groups);
        self.check_invariants();
    }

    /// Books the task's end; nothing fresh follows.
    pub fn handle_ending(&mut self, ending: Ending) {
        self.ending.get_or_insert(ending);
    }

    /// Returns the next step.
    pub fn poll_next(&mut self) -> Next {
        if self.released_told < self.released {
            self.released_told = self.released;
            let (task, groups) = (self.task, self.released);
            return Next::Tell(ToClient::Released(Released { task, groups }));
        }
        if let Some(split) = self.splits.get(self.splits_told) {
            // A split is told of only behind the elements it counts (D5.2).
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
            // The client takes back what is left by itself; a yield behind the end would give it back twice.
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

    /// Books fresh elements that go out now. The caller took no more than [`Next::Fresh`] asked for.
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

    /// Books that the task could not give what was asked for, and says what the client must hear (D4.3,
    /// D4.4).
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

    /// When `handle_timeout` is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.idle_since.map(|since| since + self.limits.patience)
    }

    /// Gives the credits back when the patience is over (D4.3).
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

    /// Elements of the subscription sent at least once.
    pub fn sent(&self) -> u64 {
        self.kept
            .back()
            .map_or(self.acknowledged, |last| last.first + last.pack.len() as u64)
    }

    /// Elements that the client has acknowledged, from the first on.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// Credits that are not spent.
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
        // Each of them was once worth a credit, and the worth of credits never shrinks.
        debug_assert!(count > 0, "an element grew while it was kept");
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

    /// Debug builds stop at a queue that contradicts its counts; this crate's tests also walk it.
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
                assert!(pack.first == next && !pack.pack.is_empty(), "a gap at {next}");
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

/// Bytes of a pack, the gap behind its last element included: so that the parts of a pack add up to it.
pub(crate) fn strides_bytes(pack: &Pack) -> u64 {
    pack.region().len().next_multiple_of(64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "some instant, from which the test counts"
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
        assert!(half.poll_timeout().is_some(), "its patience runs");
        half.handle_ending(Ending::Exhausted);
        assert!(matches!(half.poll_next(), Next::Tell(ToClient::EndOfTask(_))));
        assert_eq!(half.poll_timeout(), None);
        assert!(half.handle_timeout(start + Duration::from_secs(1)).is_none());
    }
}
