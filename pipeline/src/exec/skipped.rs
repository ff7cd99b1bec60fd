//! The failures after which a pipeline continued. The failures are counted by operation and logged without
//! flooding, and the latest failures are kept.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::error::{ExecError, Failure};
use super::state::{StateError, StateReader, StateWriter};

/// Number of failures that are logged one by one. Later failures are logged each time their number has
/// doubled.
const LOGGED_EACH: u64 = 10;
/// Maximum number of failures that are kept in full.
const RECENT_MAX: usize = 64;
/// Maximum number of operations that are counted separately, because names can come from registered sources.
/// Further operations count as [`OTHERS`].
const OPERATIONS_MAX: usize = 4096;
/// The name under which operations beyond the limit are counted.
const OTHERS: &str = "others";

/// The failures that did not end the pipeline.
#[derive(Debug, Clone, Default)]
pub struct Failures {
    /// The counts of each operation or function that failed, by its name.
    pub by_operation: BTreeMap<String, FailureCounts>,
    /// The latest elements left out, oldest first; at most 64.
    pub recent: Vec<Failure>,
}

/// The number of failures of one operation that did not end the pipeline.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FailureCounts {
    /// The number of elements, records or files left out.
    pub skipped: u64,
    /// The number of calls that were retried.
    pub retried: u64,
}

/// A count of the records left out. Clones share the count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Skipped {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    count: AtomicU64,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    by_operation: BTreeMap<String, FailureCounts>,
    recent: VecDeque<Failure>,
}

impl Skipped {
    /// Returns the number of records left out so far.
    pub(crate) fn count(&self) -> u64 {
        // Relaxed, here and below: no other memory access depends on the order of this count.
        self.shared.count.load(Ordering::Relaxed)
    }

    /// Returns the counts and the latest failures.
    pub(crate) fn failures(&self) -> Failures {
        let known = self.shared.known.lock();
        Failures {
            by_operation: known.by_operation.clone(),
            recent: known.recent.iter().cloned().collect(),
        }
    }

    /// Counts a record that failed with `error` as left out, without a warning.
    pub(crate) fn record_quietly(&self, error: &ExecError) {
        let skipped = self.counted(error);
        tracing::debug!(skipped, %error, "a broken record is left out");
    }

    /// Counts a record that failed with `error` as left out.
    pub(crate) fn record(&self, error: &ExecError) {
        let skipped = self.counted(error);
        if skipped <= LOGGED_EACH || skipped.is_power_of_two() {
            tracing::warn!(skipped, %error, "a broken record is left out");
        } else {
            tracing::debug!(skipped, %error, "a broken record is left out");
        }
    }

    /// Counts a record as left out, and returns the number of records left out so far.
    fn counted(&self, error: &ExecError) -> u64 {
        let mut known = self.shared.known.lock();
        known.counts(&error.failure().op).skipped += 1;
        if known.recent.len() == RECENT_MAX {
            known.recent.pop_front();
        }
        known.recent.push_back(error.failure().clone());
        let before = self.shared.count.fetch_add(1, Ordering::Relaxed);
        before.saturating_add(1)
    }

    /// Counts an element that the operation `op` left out without computing it, because it failed in earlier
    /// attempts.
    pub(crate) fn exclude(&self, op: &str) {
        self.shared.known.lock().counts(op).skipped += 1;
        self.shared.count.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(op, "a quarantined element is left out");
    }

    /// Counts a call that failed with `error` and is retried.
    pub(crate) fn retry(&self, error: &ExecError) {
        self.shared.known.lock().counts(&error.failure().op).retried += 1;
        tracing::debug!(%error, "a failed call is retried");
    }

    /// Writes the counts. The failures themselves stay in the process in which they occurred.
    pub(crate) fn save(&self, state: &mut StateWriter) -> Result<(), StateError> {
        state.number(self.count())?;
        let known = self.shared.known.lock();
        state.number(known.by_operation.len() as u64)?;
        for (operation, counts) in &known.by_operation {
            state.bytes(operation.as_bytes())?;
            state.number(counts.skipped)?;
            state.number(counts.retried)?;
        }
        Ok(())
    }

    /// Continues from saved counts.
    pub(crate) fn restore(&self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        self.shared.count.store(state.number()?, Ordering::Relaxed);
        let operations = state.number()?;
        if operations > OPERATIONS_MAX as u64 + 1 {
            let reason =
                format!("expected failures of at most {OPERATIONS_MAX} operations, found {operations}");
            return Err(StateError::Malformed(reason));
        }
        let mut by_operation = BTreeMap::new();
        for _ in 0..operations {
            let operation = String::from_utf8_lossy(state.bytes()?).into_owned();
            let (skipped, retried) = (state.number()?, state.number()?);
            by_operation.insert(operation, FailureCounts { skipped, retried });
        }
        self.shared.known.lock().by_operation = by_operation;
        Ok(())
    }
}

impl Known {
    fn counts(&mut self, operation: &str) -> &mut FailureCounts {
        let is_counted =
            self.by_operation.len() < OPERATIONS_MAX || self.by_operation.contains_key(operation);
        let name = if is_counted { operation } else { OTHERS };
        self.by_operation.entry(name.to_owned()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::error::ErrorKind;

    #[test]
    fn kept_failures_are_limited_and_all_counted() {
        let skipped = Skipped::default();
        let total = OPERATIONS_MAX + 7;
        for operation in 0..total {
            let error = ExecError::new(ErrorKind::Data, format!("operation {operation}"), "broken");
            skipped.record(&error);
            skipped.retry(&error);
        }
        let failures = skipped.failures();
        assert_eq!(failures.by_operation.len(), OPERATIONS_MAX + 1);
        assert_eq!(
            failures.by_operation[OTHERS],
            FailureCounts {
                skipped: 7,
                retried: 7
            }
        );
        assert_eq!(failures.recent.len(), RECENT_MAX);
        assert_eq!(
            failures.recent.last().unwrap().op,
            format!("operation {}", total - 1)
        );
        assert_eq!(skipped.count(), total as u64);
        let mut state = StateWriter::new();
        skipped.save(&mut state).unwrap();
        let (state, restored) = (state.into_bytes(), Skipped::default());
        restored.restore(&mut StateReader::new(&state)).unwrap();
        assert_eq!(restored.count(), skipped.count());
        assert_eq!(restored.failures().by_operation, failures.by_operation);
    }
}
