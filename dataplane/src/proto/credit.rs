//! The credit account of one subscription: what a client has granted and what a worker may still send.
//!
//! All counts are cumulative since the subscription, as MAX_STREAM_DATA is in QUIC: a repeated or overtaken
//! message changes nothing, and the two ends need no common clock. Refuses to know elements, bytes and time.
//!
//! Both ends keep `limit` (granted in all), `yielded` (given back in all) and a count of elements (sent by
//! the worker, received by the client). A credit is outstanding while it is granted, not given back and its
//! element not received.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use thiserror::Error;

/// The violation of credits by a peer.
#[derive(Debug, Error, Clone, Copy, PartialEq, Eq)]
pub enum CreditError {
    /// The worker sent more than it was granted.
    #[error("peer sent {sent} elements although only {limit} were granted and {yielded} of those given back")]
    Overspent {
        /// Elements sent in all.
        sent: u64,
        /// Credits granted in all.
        limit: u64,
        /// Credits given back in all.
        yielded: u64,
    },
    /// The worker gave back more than it held.
    #[error("peer gave back {yielded} credits although only {held} were not spent")]
    OverYielded {
        /// Credits given back in all.
        yielded: u64,
        /// Credits granted and not spent, in all.
        held: u64,
    },
}

/// The client's end: grants, and sees elements come back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Issuer {
    limit: u64,
    yielded: u64,
    received: u64,
}

impl Issuer {
    /// An account that stands at `received` elements, with nothing granted beyond them (D6.1).
    pub fn resumed_at(received: u64) -> Self {
        Self {
            limit: received,
            yielded: 0,
            received,
        }
    }

    /// Grants `credits` more and returns the limit to tell the worker.
    pub fn grant(&mut self, credits: u64) -> u64 {
        self.limit = self.limit.saturating_add(credits);
        self.check_invariants();
        self.limit
    }

    /// One behind the last element that the worker can have sent: what was granted and not given back.
    pub fn reach(&self) -> u64 {
        self.limit - self.yielded
    }

    /// Books `elements` that arrived, in whatever order.
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

    /// Books the worker's cumulative count of credits given back and returns how many are new.
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

    /// Credits granted whose element has not arrived and that were not given back.
    pub fn outstanding(&self) -> u64 {
        self.limit - self.yielded - self.received
    }

    /// Elements that arrived.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Debug builds stop at an account that gave out less than came back.
    pub(super) fn check_invariants(&self) {
        let came_back = self.yielded.checked_add(self.received);
        debug_assert!(came_back.is_some_and(|back| back <= self.limit), "{self:?}");
    }
}

/// The worker's end: spends what was granted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Holder {
    limit: u64,
    yielded: u64,
    sent: u64,
}

impl Holder {
    /// An account that stands at `sent` elements, with nothing granted beyond them (D6.1).
    pub fn resumed_at(sent: u64) -> Self {
        Self {
            limit: sent,
            yielded: 0,
            sent,
        }
    }

    /// Books a cumulative limit; a smaller one than is known is old news. Returns how many credits are new.
    pub fn raise_to(&mut self, limit: u64) -> u64 {
        let fresh = limit.saturating_sub(self.limit);
        self.limit += fresh;
        self.check_invariants();
        fresh
    }

    /// Credits that may be spent now. None when more was spent than granted: a mistake here never becomes an
    /// unlimited right to send.
    pub fn available(&self) -> u64 {
        self.limit.saturating_sub(self.yielded).saturating_sub(self.sent)
    }

    /// Spends `elements` credits. The caller checked [`Holder::available`].
    pub fn spend(&mut self, elements: u64) {
        debug_assert!(
            elements <= self.available(),
            "spent {elements} of {}",
            self.available()
        );
        self.sent += elements;
        self.check_invariants();
    }

    /// Gives back every credit held and returns the cumulative count to tell the client (D4.3).
    pub fn yield_all(&mut self) -> u64 {
        self.yielded += self.available();
        self.check_invariants();
        self.yielded
    }

    /// Elements sent in all.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Debug builds stop at an account that spent or gave back more than it held.
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

    /// D4.1: also where nothing asserts.
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
        /// D4.1, D4.3: the oracle moves single credits between three piles; the account must agree with it
        /// whatever is delayed or repeated, and nothing is ever created or lost.
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

        /// D4.2: whatever a peer claims, the client's account never goes below zero.
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
