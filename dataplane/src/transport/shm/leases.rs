//! Records the packs that a worker lent to its reader, each under a lease number (D10.4).
//!
//! The table owns a lent value until its number returns. The transfer of numbers is unknown to the table, and
//! every returned number is checked.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use thiserror::Error;

/// The number of one lease. The number is never zero, because a zero word means that nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseNumber(u64);

impl LeaseNumber {
    /// Returns the lease number in a word from the peer, or `None` for zero. The caller must check the number
    /// with [`Leases::give_back`].
    pub fn from_word(word: u64) -> Option<Self> {
        (word != 0).then_some(Self(word))
    }

    /// Returns the number as it is sent: the index in the table in the low 32 bits, and the count of the
    /// place's leases above.
    pub fn word(self) -> u64 {
        self.0
    }

    fn new(index: u32, generation: u32) -> Self {
        Self(u64::from(generation) << 32 | u64::from(index))
    }

    fn index(self) -> u32 {
        // The cast keeps the low half.
        self.0 as u32
    }

    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// The error for a returned number that a correct peer would not return.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum LeaseError {
    /// The table has no place with this index.
    #[error("invalid lease {index}: expected an index below {granted}")]
    Unknown {
        /// The index in the returned number.
        index: u32,
        /// The number of places that were ever in use.
        granted: usize,
    },
    /// The place exists, but its present lease has another number. The returned lease ended before, or was
    /// never granted.
    #[error("invalid return of lease {index}: expected generation {current}, found {generation}")]
    Stale {
        /// The index in the returned number.
        index: u32,
        /// The generation in the returned number.
        generation: u32,
        /// The present generation of the place.
        current: u32,
    },
    /// The place is free, and its next lease will have this number.
    #[error("invalid return of lease {index}: generation {generation} is not lent")]
    NotOut {
        /// The index in the returned number.
        index: u32,
        /// The generation in the returned number.
        generation: u32,
    },
}

/// The table of the leases of one reader.
#[derive(Debug)]
pub struct Leases<T> {
    /// The places of the table. The table grows to the largest number of leases held at once, at most `max`.
    slots: Vec<Slot<T>>,
    /// The index of the free place used last. The other free places form a linked list that begins at this
    /// place.
    free: Option<u32>,
    max: u32,
    out: usize,
    bytes_out: u64,
}

#[derive(Debug)]
struct Slot<T> {
    /// The generation of the present lease, or of the next lease if the place is free. The generation is
    /// never 0, so that no lease number is 0.
    generation: u32,
    state: State<T>,
}

#[derive(Debug)]
enum State<T> {
    Free { next: Option<u32> },
    Out { value: T, bytes: u64 },
}

impl<T> Leases<T> {
    /// Makes a table for at most `max` leases at once. The return ring has `max` places too, so the ring
    /// never overflows.
    pub fn new(max: u32) -> Self {
        Self {
            slots: Vec::new(),
            free: None,
            max,
            out: 0,
            bytes_out: 0,
        }
    }

    /// Lends a value of `bytes` bytes. Returns the value as an error if all leases are in use.
    pub fn grant(&mut self, value: T, bytes: u64) -> Result<LeaseNumber, T> {
        let Some(index) = self.free_index() else {
            return Err(value);
        };
        let slot = &mut self.slots[index as usize];
        if let State::Free { next } = slot.state {
            self.free = next;
        }
        slot.state = State::Out { value, bytes };
        let number = LeaseNumber::new(index, slot.generation);
        self.out += 1;
        self.bytes_out += bytes;
        self.check_invariants();
        Ok(number)
    }

    /// Takes back the value that was lent under a number that the peer returned. An error leaves the table
    /// unchanged, and the peer is at fault.
    pub fn give_back(&mut self, number: LeaseNumber) -> Result<T, LeaseError> {
        let (index, generation) = (number.index(), number.generation());
        let granted = self.slots.len();
        let unknown = LeaseError::Unknown { index, granted };
        let slot = self.slots.get_mut(index as usize).ok_or(unknown)?;
        if slot.generation != generation {
            let current = slot.generation;
            return Err(LeaseError::Stale {
                index,
                generation,
                current,
            });
        }
        let (value, bytes) = slot
            .free(self.free)
            .ok_or(LeaseError::NotOut { index, generation })?;
        self.free = Some(index);
        self.out -= 1;
        self.bytes_out -= bytes;
        self.check_invariants();
        Ok(value)
    }

    /// Takes all values back, after the reader has exited. All its lease numbers are invalid from now on.
    pub fn drain(&mut self) -> Vec<T> {
        let mut values = Vec::with_capacity(self.out);
        for (index, slot) in (0u32..).zip(&mut self.slots) {
            if let Some((value, _)) = slot.free(self.free) {
                values.push(value);
                self.free = Some(index);
            }
        }
        self.out = 0;
        self.bytes_out = 0;
        self.check_invariants();
        values
    }

    /// Returns the number of leases held by the reader.
    pub fn out(&self) -> usize {
        self.out
    }

    /// Returns the total bytes of the lent values.
    pub fn bytes_out(&self) -> u64 {
        self.bytes_out
    }

    /// Returns whether no further lease can be granted until a lease returns.
    pub fn is_full(&self) -> bool {
        self.out == self.max as usize
    }

    /// Returns the index of a free place, and adds a place if necessary.
    fn free_index(&mut self) -> Option<u32> {
        let made = u32::try_from(self.slots.len()).ok()?;
        if self.free.is_none() && made < self.max {
            self.slots.push(Slot {
                generation: 1,
                state: State::Free { next: None },
            });
            self.free = Some(made);
        }
        self.free
    }

    fn check_invariants(&self) {
        debug_assert!(self.out <= self.slots.len() && self.slots.len() <= self.max as usize);
        debug_assert_eq!(self.free.is_none(), self.out == self.slots.len());
        debug_assert!(self.out > 0 || self.bytes_out == 0);
    }
}

impl<T> Slot<T> {
    /// Frees a lent place, links it before `next` in the free list, and returns its value. Returns `None` if
    /// the place is free.
    fn free(&mut self, next: Option<u32>) -> Option<(T, u64)> {
        if matches!(self.state, State::Free { .. }) {
            return None;
        }
        match std::mem::replace(&mut self.state, State::Free { next }) {
            State::Out { value, bytes } => {
                self.generation = self.generation.checked_add(1).unwrap_or(1);
                Some((value, bytes))
            }
            State::Free { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const MAX: u32 = 3;

    #[derive(Debug, Clone)]
    enum Step {
        Grant { bytes: u64 },
        GiveBack { which: usize },
        Forge { word: u64 },
        Drain,
    }

    fn step() -> impl Strategy<Value = Step> {
        let near = (0..5u64, 0..6u64).prop_map(|(generation, index)| generation << 32 | index);
        prop_oneof![
            6 => (0..1000u64).prop_map(|bytes| Step::Grant { bytes }),
            5 => (0..4usize).prop_map(|which| Step::GiveBack { which }),
            4 => prop_oneof![near, any::<u64>()].prop_map(|word| Step::Forge { word }),
            1 => Just(Step::Drain),
        ]
    }

    proptest! {
        #[test]
        fn a_loan_returns_once_under_its_number(steps in prop::collection::vec(step(), 1..200)) {
            let mut leases = Leases::new(MAX);
            let mut model = BTreeMap::new();
            let mut ever = BTreeMap::new();
            for (value, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Grant { bytes } => {
                        prop_assert_eq!(leases.is_full(), model.len() == MAX as usize);
                        match leases.grant(value, bytes) {
                            Ok(number) => {
                                prop_assert!(model.len() < MAX as usize);
                                prop_assert!(ever.insert(number, value).is_none(), "{:?} again", number);
                                prop_assert_eq!(LeaseNumber::from_word(number.word()), Some(number));
                                model.insert(number, (value, bytes));
                            }
                            Err(refused) => {
                                prop_assert_eq!(refused, value);
                                prop_assert_eq!(model.len(), MAX as usize);
                            }
                        }
                    }
                    Step::GiveBack { which } => {
                        if let Some(&number) = model.keys().nth(which) {
                            let (value, _) = model.remove(&number).expect("the key was just read from the model");
                            prop_assert_eq!(leases.give_back(number), Ok(value));
                            prop_assert!(leases.give_back(number).is_err());
                        }
                    }
                    Step::Forge { word } => {
                        if let Some(number) = LeaseNumber::from_word(word) {
                            let expected = model.remove(&number).map(|(value, _)| value);
                            prop_assert_eq!(leases.give_back(number).ok(), expected);
                        }
                    }
                    Step::Drain => {
                        let mut drained = leases.drain();
                        drained.sort_unstable();
                        let mut expected: Vec<usize> = model.values().map(|(value, _)| *value).collect();
                        expected.sort_unstable();
                        prop_assert_eq!(drained, expected);
                        model.clear();
                    }
                }
                prop_assert_eq!(leases.out(), model.len());
                prop_assert_eq!(leases.bytes_out(), model.values().map(|(_, bytes)| bytes).sum::<u64>());
            }
        }
    }

    #[test]
    fn a_number_that_is_not_lent_is_refused() {
        let mut leases = Leases::new(MAX);
        let number = leases.grant("pack", 7).expect("the first");
        assert_eq!(number.word(), 1 << 32);
        let forged = |index, generation| LeaseNumber::new(index, generation);
        assert_eq!(
            leases.give_back(forged(1, 1)),
            Err(LeaseError::Unknown { index: 1, granted: 1 })
        );
        let stale = LeaseError::Stale {
            index: 0,
            generation: 2,
            current: 1,
        };
        assert_eq!(leases.give_back(forged(0, 2)), Err(stale));
        assert_eq!(leases.give_back(number), Ok("pack"));
        let stale = LeaseError::Stale {
            index: 0,
            generation: 1,
            current: 2,
        };
        assert_eq!(leases.give_back(number), Err(stale));
        let not_out = LeaseError::NotOut {
            index: 0,
            generation: 2,
        };
        assert_eq!(leases.give_back(forged(0, 2)), Err(not_out));
        assert!(not_out.to_string().contains("lease 0: generation 2"));
    }

    #[test]
    fn generations_wrap_around_zero() {
        let mut leases = Leases::new(1);
        let first = leases.grant((), 0).expect("the only one");
        leases.slots[0].generation = u32::MAX;
        leases
            .give_back(first)
            .expect_err("the place has a later generation");
        leases
            .give_back(LeaseNumber::new(0, u32::MAX))
            .expect("the lease is held");
        assert_eq!(leases.grant((), 0), Ok(first));
    }
}
