//! Counts of the payload bytes that a reader copied, by worker. Links count the bytes that they copy; the
//! consumer counts the bytes that it decompresses.
//!
//! The counts outlive the links, so that a broken link's copies still count. This file does not know why
//! bytes were copied.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The number of copied bytes for each worker.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    by_worker: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
}

/// The part of one link in the count of its worker.
#[derive(Debug)]
pub(crate) struct LinkCopies {
    count: Arc<AtomicU64>,
    /// The number of bytes that the link had copied at the last call of [`LinkCopies::note`].
    noted: u64,
}

impl Copies {
    /// Returns the counter for a new link to a worker, which has not copied anything yet.
    pub(crate) fn of_link(&self, worker: &str) -> LinkCopies {
        LinkCopies {
            count: self.count(worker),
            noted: 0,
        }
    }

    /// Adds bytes that the consumer copied after they left the link.
    pub(crate) fn add(&self, worker: &str, bytes: u64) {
        self.count(worker).fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the number of bytes of a worker's elements that were copied so far.
    pub(crate) fn bytes(&self, worker: &str) -> u64 {
        let by_worker = self.by_worker.lock();
        by_worker
            .get(worker)
            .map_or(0, |count| count.load(Ordering::Relaxed))
    }

    fn count(&self, worker: &str) -> Arc<AtomicU64> {
        let mut by_worker = self.by_worker.lock();
        by_worker.entry(worker.to_owned()).or_default().clone()
    }
}

impl LinkCopies {
    /// Notes the number of bytes that the link has copied in all. The ordering is relaxed, because the count
    /// is only a statistic and synchronizes no other data.
    pub(crate) fn note(&mut self, bytes: u64) {
        let fresh = bytes.saturating_sub(std::mem::replace(&mut self.noted, bytes));
        if fresh > 0 {
            self.count.fetch_add(fresh, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn successive_links_and_the_consumer_count_together() {
        let copies = Copies::default();
        let mut one = copies.of_link("a");
        one.note(10);
        one.note(10);
        one.note(25);
        drop(one);
        let mut two = copies.of_link("a");
        two.note(5);
        copies.add("a", 100);
        copies.add("b", 1);
        assert_eq!(["a", "b", "c"].map(|worker| copies.bytes(worker)), [130, 1, 0]);
    }
}
