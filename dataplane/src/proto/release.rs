//! Computes which groups of a coordinated read every consumer has. Consumers may hand over an element only
//! after every consumer has the element's group (D7.3).
//!
//! Element `k` of a coordinated task goes to consumer `k mod n`. Group `g` consists of the `g`-th element of
//! each consumer. The module owns the counts that consumers acknowledged; elements, links and clients are
//! unknown to it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::num::NonZeroU32;

/// The acknowledgements of each consumer of a task, and the number of released groups that follows from them.
#[derive(Debug)]
pub struct Release {
    /// The number of elements that each consumer has acknowledged, indexed by the consumer's number.
    acknowledged: Vec<u64>,
    groups: u64,
    /// The number of consumers that have only the released groups. The next group is released when this
    /// number reaches 0.
    behind: usize,
}

impl Release {
    /// Makes the counts of `consumers` consumers that have no elements yet.
    pub fn new(consumers: NonZeroU32) -> Self {
        let count = consumers.get() as usize;
        Self {
            acknowledged: vec![0; count],
            groups: 0,
            behind: count,
        }
    }

    /// Returns the number of consumers.
    pub fn consumers(&self) -> u32 {
        self.acknowledged.len() as u32
    }

    /// Books that a consumer has its first `received` elements. A number below an earlier one changes
    /// nothing. Returns whether the acknowledgement releases a group.
    ///
    /// # Panics
    /// Panics if `consumer` is not below the number of consumers.
    pub fn acknowledge(&mut self, consumer: u32, received: u64) -> bool {
        let of_consumer = &mut self.acknowledged[consumer as usize];
        let before = std::mem::replace(of_consumer, received.max(*of_consumer));
        if before > self.groups || *of_consumer == before {
            return false;
        }
        self.behind -= 1;
        if self.behind > 0 {
            return false;
        }
        self.groups = self.acknowledged.iter().copied().min().unwrap_or_default();
        self.behind = self
            .acknowledged
            .iter()
            .filter(|has| **has == self.groups)
            .count();
        true
    }

    /// Returns the number of groups that every consumer has.
    pub fn groups(&self) -> u64 {
        self.groups
    }

    /// Returns the lowest position in the task at which another consumer than `consumer` lacks an element.
    pub fn reach_of_others(&self, consumer: u32) -> u64 {
        let others = (0u32..)
            .zip(&self.acknowledged)
            .filter(|(other, _)| *other != consumer);
        let next = others.map(|(other, has)| self.position(other, *has));
        next.min().unwrap_or(u64::MAX)
    }

    /// Returns the position in the task of a consumer's element.
    pub fn position(&self, consumer: u32, element: u64) -> u64 {
        let row = element.saturating_mul(self.acknowledged.len() as u64);
        row.saturating_add(u64::from(consumer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// D7.3: the model checks every element of every group.
        #[test]
        fn what_is_released_is_what_everybody_has(
            consumers in 1u32..6,
            steps in proptest::collection::vec((any::<prop::sample::Index>(), 0u64..12), 0..60),
        ) {
            let mut release = Release::new(NonZeroU32::new(consumers).unwrap());
            let mut has = vec![0u64; consumers as usize];
            for (consumer, received) in steps {
                let consumer = consumer.index(consumers as usize);
                let before = release.groups();
                let is_news = release.acknowledge(consumer as u32, received);
                has[consumer] = has[consumer].max(received);
                let is_everywhere = |group: &u64| has.iter().all(|has| has > group);
                prop_assert_eq!(release.groups(), (0u64..).take_while(is_everywhere).count() as u64);
                prop_assert_eq!(is_news, release.groups() > before);
                for asked in 0..consumers {
                    let n = u64::from(consumers);
                    let is_there = |k: &u64| k % n == u64::from(asked) || has[(k % n) as usize] > k / n;
                    // The search covers all positions that a consumer can have reached.
                    let model = (0..13 * n).find(|k| !is_there(k)).unwrap_or(u64::MAX);
                    prop_assert_eq!(release.reach_of_others(asked), model);
                }
            }
        }
    }
}
