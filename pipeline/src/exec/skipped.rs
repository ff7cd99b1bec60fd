//! The records that a pipeline has left out because they are broken: counted, and logged without flooding.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::error::ExecError;

/// Records logged one by one; after them each time their number has doubled.
const LOGGED_EACH: u64 = 10;

/// A count of records left out. Clones are the same count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Skipped {
    count: Arc<AtomicU64>,
}

impl Skipped {
    /// How many so far.
    pub(crate) fn count(&self) -> u64 {
        // Relaxed, here and below: a count that orders nothing else.
        self.count.load(Ordering::Relaxed)
    }

    /// Goes on from a count that was saved.
    pub(crate) fn restore(&self, count: u64) {
        self.count.store(count, Ordering::Relaxed);
    }

    /// Counts a record that failed with `error`, without a warning.
    pub(crate) fn record_quietly(&self, error: &ExecError) {
        let skipped = self.count.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        tracing::debug!(skipped, %error, "a broken record is left out");
    }

    /// Counts a record that failed with `error`.
    pub(crate) fn record(&self, error: &ExecError) {
        let skipped = self.count.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if skipped <= LOGGED_EACH || skipped.is_power_of_two() {
            tracing::warn!(skipped, %error, "a broken record is left out");
        } else {
            tracing::debug!(skipped, %error, "a broken record is left out");
        }
    }
}
