//! The credit account of one subscription: the credits that a client granted and the elements that a worker
//! may still send.
//!
//! All counts are cumulative since the subscription, like MAX_STREAM_DATA in QUIC. Therefore a repeated or
//! overtaken message changes nothing, and the two ends need no common clock. The account does not know
//! elements, bytes or time.
//!
//! Both ends keep `limit` (the credits granted in total) and `yielded` (the credits given back in total). The
//! worker also counts the elements that it sent, and the client the elements that it received. A credit is
//! outstanding after it is granted, until it is given back or its element is received.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use thiserror::Error;

/// The error for a peer that violates the rules of credits.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum CreditError {
    /// The worker sent more elements than the client granted.
    #[error(
        "expected at most {limit} elements less {yielded} credits given back, found {sent} elements sent by the peer"
    )]
    Overspent {
        /// The number of elements sent in total.
        sent: u64,
        /// The number of credits granted in total.
        limit: u64,
        /// The number of credits given back in total.
        yielded: u64,
    },
    /// The worker gave back more credits than it held.
    #[error("expected the peer to give back at most {held} unspent credits, found {yielded}")]
    OverYielded {
        /// The number of credits given back in total.
        yielded: u64,
        /// The number of credits granted and not spent.
        held: u64,
    },
}

/// The client's end of the account, which grants credits and counts the elements that arrive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Issuer {
    limit: u64,
    yielded: u64,
    received: u64,
}

impl Issuer {
    /// Makes an account with `received` elements received and no credit granted beyond them (D6.1).
    pub fn resumed_at(received: u64) -> Self {
        Self {
            limit: received,
            yielded: 0,
            received,
        }
    }

    /// Grants `credits` more and returns the new limit, which the client sends to the worker.
    pub fn grant(&mut self, credits: u64) -> u64 {
        self.limit = self.limit.saturating_add(credits);
        self.check_invariants();
        self.limit
    }

    /// Returns the number of credits granted and not given back. The worker cannot have sent an element at or
    /// after this position.
    pub fn reach(&self) -> u64 {
        self.limit - self.yielded
    }

    /// Books `elements` that arrived, in any order.
    pub fn receive(&mut self, elements: u64) -> Result<(), CreditError> {
        let sent = self.received.saturating_add(elements);
        if sent.saturating_add(self.yielded) > self.limit {
            return Err(CreditError::Overspent {
                sent,
                limit: self.limit,
                yielded: self.yielded,
            });
        }
        self.received = sent;
        self.check_invariants();
        Ok(())
    }

    /// Books the worker's cumulative count of credits given back. Returns how many of these credits were not
    /// booked before.
    pub fn take_back(&mut self, yielded_total: u64) -> Result<u64, CreditError> {
        let held = self.limit - self.received;
        if yielded_total > held {
            return Err(CreditError::OverYielded {
                yielded: yielded_total,
                held,
            });
        }
        let fresh = yielded_total.saturating_sub(self.yielded);
        self.yielded += fresh;
        self.check_invariants();
        Ok(fresh)
    }

    /// Returns the number of credits granted and not given back whose element has not arrived.
    pub fn outstanding(&self) -> u64 {
        self.limit - self.yielded - self.received
    }

    /// Returns the number of elements that arrived.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Panics in debug builds if the elements received and the credits given back exceed the credits granted.
    pub(super) fn check_invariants(&self) {
        let came_back = self.yielded.checked_add(self.received);
        debug_assert!(came_back.is_some_and(|back| back <= self.limit), "{self:?}");
    }
}

/// The worker's end of the account, which spends granted credits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Holder {
    limit: u64,
    yielded: u64,
    sent: u64,
}

impl Holder {
    /// Makes an account with `sent` elements sent and no credit granted beyond them (D6.1).
    pub fn resumed_at(sent: u64) -> Self {
        Self {
            limit: sent,
            yielded: 0,
            sent,
        }
    }

    /// Raises the cumulative limit and ignores a limit that is not higher. Returns the number of new credits.
    pub fn raise_to(&mut self, limit: u64) -> u64 {
        let fresh = limit.saturating_sub(self.limit);
        self.limit += fresh;
        self.check_invariants();
        fresh
    }

    /// Returns the number of credits that the worker may spend now. The number is 0, not a wrapped
    /// difference, if more credits were spent than granted. Thus an error in the count never becomes an
    /// unlimited right to send.
    pub fn available(&self) -> u64 {
        self.limit.saturating_sub(self.yielded).saturating_sub(self.sent)
    }

    /// Spends `elements` credits. The caller must have checked [`Holder::available`].
    pub fn spend(&mut self, elements: u64) {
        debug_assert!(
            elements <= self.available(),
            "spent {elements} credits, but only {} were available",
            self.available()
        );
        self.sent += elements;
        self.check_invariants();
    }

    /// Gives back every held credit and returns the cumulative count for the client (D4.3).
    pub fn yield_all(&mut self) -> u64 {
        self.yielded += self.available();
        self.check_invariants();
        self.yielded
    }

    /// Returns the number of elements sent in total.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Panics in debug builds if the credits spent and given back exceed the credits granted.
    pub(super) fn check_invariants(&self) {
        let gone = self.yielded.checked_add(self.sent);
        debug_assert!(gone.is_some_and(|gone| gone <= self.limit), "{self:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    /// D4.1: an overspent account has no credit to spend, even in builds without assertions.
    #[test]
    fn an_overspent_account_has_nothing_to_spend() {
        let overspent = Holder {
            limit: 4,
            yielded: 1,
            sent: 5,
        };
        assert_eq!(overspent.available(), 0);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Grant(u64),
        Send(u64),
        Yield,
        DeliverGrant,
        DeliverUp(prop::sample::Index),
        RepeatGrant,
    }

    enum Up {
        Elements(u64),
        Yielded(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (1u64..20).prop_map(Step::Grant),
            (1u64..20).prop_map(Step::Send),
            Just(Step::Yield),
            Just(Step::DeliverGrant),
            any::<prop::sample::Index>().prop_map(Step::DeliverUp),
            Just(Step::RepeatGrant),
        ];
        proptest::collection::vec(step, 0..200)
    }

    proptest! {
        /// D4.1, D4.3: the oracle moves single credits between three piles. The account must agree with the
        /// oracle however messages are delayed or repeated, and credits are neither created nor lost.
        #[test]
        fn credits_are_neither_made_nor_lost(steps in steps()) {
            let (mut issuer, mut holder) = (Issuer::default(), Holder::default());
            let (mut down, mut up) = (VecDeque::new(), VecDeque::new());
            let (mut granted, mut at_worker, mut arrived, mut returned) = (0u64, 0u64, 0u64, 0u64);
            let mut last_limit = 0;
            for step in steps {
                match step {
                    Step::Grant(n) => { granted += n; down.push_back((issuer.grant(n), n)); }
                    Step::DeliverGrant => if let Some((limit, n)) = down.pop_front() {
                        last_limit = limit;
                        at_worker += n;
                        prop_assert_eq!(holder.raise_to(limit), n);
                    },
                    Step::RepeatGrant => prop_assert_eq!(holder.raise_to(last_limit), 0),
                    Step::Send(n) => {
                        let n = n.min(holder.available());
                        holder.spend(n);
                        at_worker -= n;
                        up.push_back(Up::Elements(n));
                    }
                    Step::Yield => { up.push_back(Up::Yielded(holder.yield_all())); at_worker = 0; }
                    Step::DeliverUp(which) => match (!up.is_empty()).then(|| up.swap_remove_back(which.index(up.len()))).flatten() {
                        Some(Up::Elements(n)) => { issuer.receive(n).unwrap(); arrived += n; }
                        Some(Up::Yielded(total)) => returned += issuer.take_back(total).unwrap(),
                        None => {}
                    },
                }
                prop_assert_eq!(holder.available(), at_worker);
                prop_assert_eq!(issuer.outstanding(), granted - arrived - returned);
                prop_assert!(holder.available() <= issuer.outstanding());
            }
        }

        /// D4.2: the client's account never goes below zero, whatever counts the worker sends.
        #[test]
        fn a_lying_worker_is_an_error(limit in 0u64..50, claims in proptest::collection::vec((any::<bool>(), any::<u64>()), 0..20)) {
            let mut issuer = Issuer::default();
            issuer.grant(limit);
            for (yields, claim) in claims {
                let before = issuer;
                let outcome = if yields { issuer.take_back(claim).map(drop) } else { issuer.receive(claim) };
                if outcome.is_err() { prop_assert_eq!(issuer, before); }
                prop_assert!(issuer.outstanding() <= limit);
            }
        }
    }
}
