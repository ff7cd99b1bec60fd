//! The ring that leases come back through: any thread of the reader puts in, the worker alone takes out.
//!
//! It has a place for each lease that can be out, and a lease is out until the worker took its number from
//! here: so there is always a free place, and returning neither waits nor fails (D10.4). Owns the order of
//! places. Refuses to know what a number means: whether it is one that is out is for
//! [`Leases`](super::leases::Leases) to say.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use super::layout::ReturnsPlace;
use super::leases::LeaseNumber;
use super::wait::{self, WaitFlag};
use super::words::{Word, Words};

/// The reader's end. Threads share it, or clone it where the area can be cloned.
#[derive(Debug, Clone)]
pub struct ReturnSender<W> {
    words: W,
    place: ReturnsPlace,
}

impl<W: Words> ReturnSender<W> {
    /// The reader's end of a ring in fresh memory.
    ///
    /// # Panics
    ///
    /// If the area is too small for the place.
    pub fn new(words: W, place: ReturnsPlace) -> Self {
        assert!(words.words().len() >= place.end(), "the area holds the ring");
        Self { words, place }
    }

    /// Returns a lease, without waiting for anybody. Each lease once: a second time takes another's place.
    /// Then ask [`ReturnSender::needs_wake`], once for any number of leases.
    pub fn send(&self, lease: LeaseNumber) {
        let words = self.words.words();
        // AcqRel, partner: itself in other threads. Of those that took a place up to this one, at least one
        // returned a lease that was granted after the worker emptied the place; this one must not be
        // overtaken by that.
        let taken = words[self.place.tail].fetch_add(1, AcqRel);
        // Partner: the Acquire load in `ReturnReceiver::pop`. The reader is done with the lease's memory
        // before.
        words[self.place.slot(taken)].store(lease.word(), Release);
    }

    /// Returns whether the worker sleeps until leases come back, and its bell is to be rung now. Call after
    /// returning.
    pub fn needs_wake(&self) -> bool {
        wait::needs_wake(self.words.words(), self.place.receiver_waits)
    }
}

/// The worker's end. Never looks at the shared tail: the place that comes next is empty or it is not.
///
/// Who grants leases does so behind what it took from here: in the same thread, or one that hears of it from
/// that.
#[derive(Debug)]
pub struct ReturnReceiver<W> {
    words: W,
    place: ReturnsPlace,
    /// Numbers taken.
    taken: u64,
    returns: WaitFlag,
}

impl<W: Words> ReturnReceiver<W> {
    /// The worker's end of a ring in fresh memory.
    ///
    /// # Panics
    ///
    /// If the area is too small for the place.
    pub fn new(words: W, place: ReturnsPlace) -> Self {
        assert!(words.words().len() >= place.end(), "the area holds the ring");
        Self {
            words,
            place,
            taken: 0,
            returns: WaitFlag::new(place.receiver_waits),
        }
    }

    /// The next number that came back, unchecked. A peer that writes without end is noticed at the first
    /// number that is not lent. At most one number more than are lent comes from here.
    pub fn pop(&mut self) -> Option<LeaseNumber> {
        self.returns.lower(self.words.words());
        let slot = &self.words.words()[self.place.slot(self.taken)];
        // Partner: the Release store in `ReturnSender::send`.
        let lease = LeaseNumber::from_word(slot.load(Acquire))?;
        // Seen by the next who writes here, who has a lease that was granted behind this.
        slot.store(0, Relaxed);
        self.taken += 1;
        Some(lease)
    }

    /// Returns whether the worker may sleep until its bell rings, because nothing came back. Empty the bell
    /// before, not after. A worker that does not wait for leases need not call this, and then returns cost no
    /// system call.
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
        assert!(!sender.needs_wake(), "nobody waits");
        assert!(!receiver.prepare_wait(), "one is there");
        assert!(!sender.needs_wake(), "it found one");
        assert!(receiver.pop().is_some());
        assert!(receiver.prepare_wait());
        sender.send(grant());
        assert!(sender.needs_wake());
        assert!(!sender.needs_wake(), "once is enough");
        assert!(receiver.prepare_wait() || receiver.pop().is_some());
        assert!(receiver.prepare_wait());
        assert_eq!(receiver.pop(), None);
        sender.send(grant());
        assert!(!sender.needs_wake(), "it is awake again");
    }
}
