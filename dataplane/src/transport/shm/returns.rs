//! The ring through which leases return. Any thread of the reader puts leases in, and only the worker takes
//! them out.
//!
//! The ring has a place for each lease that can be held. A lease counts as held until the worker has taken
//! its number from the ring. Therefore a free place always exists, and returning a lease neither waits nor
//! fails (D10.4).
//!
//! The ring owns the order of the places. The meaning of a number is unknown to it;
//! [`Leases`](super::leases::Leases) checks that a returned number is held.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::layout::ReturnsPlace;
use super::leases::LeaseNumber;
use super::wait::{self, WaitFlag};
use super::words::{Word, Words};

/// The reader's end of the ring. Threads share it, or clone it if the memory can be cloned.
#[derive(Debug, Clone)]
pub struct ReturnSender<W> {
    words: W,
    place: ReturnsPlace,
}

impl<W: Words> ReturnSender<W> {
    /// Makes the reader's end of a ring in fresh memory.
    ///
    /// # Panics
    ///
    /// Panics if the memory is too small for the ring.
    pub fn new(words: W, place: ReturnsPlace) -> Self {
        assert!(words.words().len() >= place.end(), "the area holds the ring");
        Self { words, place }
    }

    /// Returns a lease to the worker without waiting. A lease must be returned only once, because a second
    /// return would take the place of another lease. After returning any number of leases, the caller asks
    /// [`ReturnSender::needs_wake`] once.
    pub fn send(&self, lease: LeaseNumber) {
        let words = self.words.words();
        // AcqRel, partner: the same operation in other threads. At least one thread that took an earlier
        // place, or this thread, returned a lease granted after the worker emptied the place. The ordering
        // makes the emptying happen before the store below.
        let taken = words[self.place.tail].fetch_add(1, AcqRel);
        // Partner: the Acquire load in `ReturnReceiver::pop`. The reader's last access to the lease's memory
        // happens before.
        words[self.place.slot(taken)].store(lease.word(), Release);
    }

    /// Returns whether the worker sleeps until leases return, so that the caller must wake it now. The caller
    /// asks after it returned leases.
    pub fn needs_wake(&self) -> bool {
        wait::needs_wake(self.words.words(), self.place.receiver_waits)
    }
}

/// The worker's end of the ring. The worker never reads the shared counter; it only checks whether the next
/// place is empty.
///
/// A thread that grants leases must act after this end has taken the returned numbers: in the same thread, or
/// synchronised with it.
#[derive(Debug)]
pub struct ReturnReceiver<W> {
    words: W,
    place: ReturnsPlace,
    /// The number of leases taken from the ring.
    taken: u64,
    returns: WaitFlag,
}

impl<W: Words> ReturnReceiver<W> {
    /// Makes the worker's end of a ring in fresh memory.
    ///
    /// # Panics
    ///
    /// Panics if the memory is too small for the ring.
    pub fn new(words: W, place: ReturnsPlace) -> Self {
        assert!(words.words().len() >= place.end(), "the area holds the ring");
        Self {
            words,
            place,
            taken: 0,
            returns: WaitFlag::new(place.receiver_waits),
        }
    }

    /// Returns the next returned number, unchecked. A peer that returns numbers without end is detected at
    /// the first number that is not held. The ring delivers at most one number more than leases are held.
    pub fn pop(&mut self) -> Option<LeaseNumber> {
        self.returns.lower(self.words.words());
        let slot = &self.words.words()[self.place.slot(self.taken)];
        // Partner: the Release store in `ReturnSender::send`.
        let lease = LeaseNumber::from_word(slot.load(Acquire))?;
        // The store is seen by the thread that next writes to this place, because its lease was granted after
        // the store.
        slot.store(0, Relaxed);
        self.taken += 1;
        Some(lease)
    }

    /// Returns whether the worker may sleep until it is woken, because no lease has returned. The caller must
    /// discard old wake-ups before, not after. A worker that does not wait for leases need not call this
    /// method, and then returns cost no system call.
    pub fn prepare_wait(&mut self) -> bool {
        let words = self.words.words();
        self.returns.raise(words);
        let has_return = words[self.place.slot(self.taken)].load(Relaxed) != 0;
        if has_return {
            self.returns.lower(words);
        }
        !has_return
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::atomic::AtomicU64;

    use proptest::prelude::*;

    use super::*;
    use crate::transport::shm::layout::ControlLayout;
    use crate::transport::shm::leases::Leases;

    const LEASES: usize = 4;
    const LAYOUT: ControlLayout = ControlLayout::new(4, 3, LEASES);

    #[derive(Debug, Clone)]
    enum Step {
        Grant,
        Return { which: usize },
        Pop,
        Scribble { at: usize, value: u64 },
    }

    fn honest() -> impl Strategy<Value = Step> {
        prop_oneof![
            Just(Step::Grant),
            (0..LEASES).prop_map(|which| Step::Return { which }),
            Just(Step::Pop),
        ]
    }

    fn hostile() -> impl Strategy<Value = Step> {
        let places = LAYOUT.returns.tail..LAYOUT.returns.end();
        let value = prop_oneof![0..3u64, (0..4u64).prop_map(|index| 1 << 32 | index), any::<u64>()];
        let scribble = (places, value).prop_map(|(at, value)| Step::Scribble { at, value });
        prop_oneof![3 => honest(), 1 => scribble]
    }

    fn area() -> Vec<AtomicU64> {
        (0..LAYOUT.words()).map(|_| AtomicU64::new(0)).collect()
    }

    proptest! {
        #[test]
        fn leases_return_in_order_around_the_ring(
            steps in prop::collection::vec(honest(), 1..300),
        ) {
            let words = area();
            let sender = ReturnSender::new(&words, LAYOUT.returns);
            let mut receiver = ReturnReceiver::new(&words, LAYOUT.returns);
            let mut leases = Leases::new(LEASES as u32);
            let mut held = Vec::new();
            let mut under_way = VecDeque::new();
            for step in steps {
                match step {
                    Step::Grant => held.extend(leases.grant((), 0).ok()),
                    Step::Return { which } if which < held.len() => {
                        let lease = held.swap_remove(which);
                        sender.send(lease);
                        under_way.push_back(lease);
                    }
                    Step::Pop => {
                        let popped = receiver.pop();
                        prop_assert_eq!(popped, under_way.pop_front());
                        if let Some(lease) = popped {
                            prop_assert_eq!(leases.give_back(lease), Ok(()));
                        }
                    }
                    Step::Return { .. } | Step::Scribble { .. } => {}
                }
                prop_assert_eq!(leases.out(), held.len() + under_way.len());
            }
        }

        #[test]
        fn garbage_is_refused_or_a_lent_lease(
            steps in prop::collection::vec(hostile(), 1..300),
        ) {
            let words = area();
            let sender = ReturnSender::new(&words, LAYOUT.returns);
            let mut receiver = ReturnReceiver::new(&words, LAYOUT.returns);
            let mut leases = Leases::new(LEASES as u32);
            let mut held = Vec::new();
            let mut out = std::collections::BTreeSet::new();
            for step in steps {
                match step {
                    Step::Grant => {
                        let granted = leases.grant((), 0).ok();
                        held.extend(granted);
                        out.extend(granted);
                    }
                    Step::Return { which } if which < held.len() => sender.send(held.swap_remove(which)),
                    Step::Pop => {
                        if let Some(lease) = receiver.pop() {
                            prop_assert_eq!(leases.give_back(lease).is_ok(), out.remove(&lease));
                        }
                    }
                    Step::Return { .. } => {}
                    Step::Scribble { at, value } => words[at].store(value, Relaxed),
                }
                prop_assert_eq!(leases.out(), out.len());
            }
        }
    }

    #[test]
    fn a_worker_is_woken_only_while_waiting() {
        let words = area();
        let sender = ReturnSender::new(&words, LAYOUT.returns);
        let mut receiver = ReturnReceiver::new(&words, LAYOUT.returns);
        let mut leases = Leases::new(LEASES as u32);
        let mut grant = || leases.grant((), 0).expect("one is free");
        sender.send(grant());
        assert!(!sender.needs_wake(), "the worker does not wait");
        assert!(!receiver.prepare_wait(), "a lease has returned");
        assert!(!sender.needs_wake(), "the worker found a lease");
        assert!(receiver.pop().is_some());
        assert!(receiver.prepare_wait());
        sender.send(grant());
        assert!(sender.needs_wake());
        assert!(!sender.needs_wake(), "the worker was woken already");
        assert!(receiver.prepare_wait() || receiver.pop().is_some());
        assert!(receiver.prepare_wait());
        assert_eq!(receiver.pop(), None);
        sender.send(grant());
        assert!(!sender.needs_wake(), "the worker is awake again");
    }
}
