//! The numbers of a session's requests: the next number, and the numbers of unanswered requests (C1.5).
//!
//! [`Numbers`] does not know the requests themselves.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::BTreeSet;

use crate::dispatcher::REQUESTS_OPEN_MAX;
use crate::id::RequestNumber;

/// The request numbers of one session.
#[derive(Debug)]
pub struct Numbers {
    next: u64,
    open: BTreeSet<u64>,
}

impl Default for Numbers {
    fn default() -> Numbers {
        Numbers {
            next: RequestNumber::FIRST.0,
            open: BTreeSet::new(),
        }
    }
}

impl Numbers {
    /// Returns the next number. `None` if the dispatcher would not remember all numbers from the first
    /// unanswered one on.
    pub fn open_next(&mut self) -> Option<RequestNumber> {
        let first = self.open.first().copied().unwrap_or(self.next);
        if self.next - first >= REQUESTS_OPEN_MAX {
            return None;
        }
        let number = self.next;
        self.next += 1;
        self.open.insert(number);
        Some(RequestNumber(number))
    }

    /// Settles a request that was answered, or that will not be repeated.
    pub fn settle(&mut self, number: RequestNumber) {
        self.open.remove(&number.0);
    }

    /// Returns the number below which every request is settled.
    pub fn settled_below(&self) -> RequestNumber {
        RequestNumber(self.open.first().copied().unwrap_or(self.next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests that an unanswered request limits the following numbers (C1.5).
    #[test]
    fn numbers_wait_for_the_first_unanswered() {
        let mut numbers = Numbers::default();
        let first = numbers.open_next().unwrap();
        for number in 2..=REQUESTS_OPEN_MAX {
            assert_eq!(numbers.open_next(), Some(RequestNumber(number)));
            numbers.settle(RequestNumber(number));
            assert_eq!(numbers.settled_below(), first);
        }
        assert_eq!(numbers.open_next(), None, "the first is still open");
        numbers.settle(first);
        assert_eq!(numbers.settled_below(), RequestNumber(REQUESTS_OPEN_MAX + 1));
        assert_eq!(numbers.open_next(), Some(RequestNumber(REQUESTS_OPEN_MAX + 1)));
    }
}
