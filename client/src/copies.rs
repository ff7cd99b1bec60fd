//! Payload bytes that a reader copied, by worker: its links count what they copy, its consumer what it
//! decompresses.
//!
//! Outlives links, so that one that broke counts too. Refuses to know why something was copied.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// The counts.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    by_worker: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
}

/// A link's part of its worker's count.
#[derive(Debug)]
pub(crate) struct LinkCopies {
    count: Arc<AtomicU64>,
    /// The bytes that the link had copied when it was last asked.
    noted: u64,
}

impl Copies {
    /// For a new link to a worker, which has copied nothing yet.
    pub(crate) fn of_link(&self, worker: &str) -> LinkCopies {
        LinkCopies {
            count: self.count(worker),
            noted: 0,
        }
    }

    /// Adds what was copied behind the links.
    pub(crate) fn add(&self, worker: &str, bytes: u64) {
        self.count(worker).fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes of a worker's elements that were copied so far.
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
    /// The link has copied so much by now. Relaxed: the count describes, and nothing is handed over by it.
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
