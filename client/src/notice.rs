//! Notices for the user of a reader during reading: lost workers, waits, and lost data.
//!
//! This file owns the sentences of the notices. The notices go to a callback or to the log, which this file
//! does not know.

use std::fmt;
use std::sync::Arc;

use crate::loss::DataLoss;

/// A callback that receives each notice on a thread of the reader. The callback must not block.
pub type OnNotice = Arc<dyn Fn(&Notice) + Send + Sync>;

/// A notice that the user should see. The text of a notice has no final full stop.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// The dispatcher gave a worker up. Splits that the worker had started may be lost; other workers read
    /// the remaining splits.
    WorkerLost {
        /// The address of the worker.
        worker: String,
        /// The reason, as text.
        reason: String,
    },
    /// No worker is available for this reader yet.
    NoWorkers {
        /// The dispatcher's address.
        dispatcher: String,
        /// The time spent on waiting, in seconds.
        since_s: u64,
    },
    /// All tasks of this reader have ended, but the iteration has not.
    NoTasks {
        /// The dispatcher's address.
        dispatcher: String,
        /// The time spent on waiting, in seconds.
        since_s: u64,
    },
    /// A worker cannot be reached, although the dispatcher considers it alive. Meanwhile the reader reads
    /// from other workers.
    WorkerUnreachable {
        /// The address of the worker.
        worker: String,
        /// The failure of the last attempt.
        reason: String,
        /// The time spent on attempts, in seconds.
        since_s: u64,
    },
    /// A worker does not know a task that the dispatcher assigned to it. Meanwhile the reader reads from
    /// other workers.
    TaskUnknown {
        /// The address of the worker.
        worker: String,
        /// The number of the task.
        task: u64,
        /// The time spent on repeated requests, in seconds.
        since_s: u64,
    },
    /// The iteration is over, but some of its splits were lost.
    DataLost(DataLoss),
    /// An exactly-once job gave a split up, because several workers died while they read it.
    SplitSkipped {
        /// The number of the split in the source.
        split: u64,
    },
    /// An operation failed at an element of an exactly-once job, and another attempt follows.
    ElementFailed {
        /// The number of the split in the source.
        split: u64,
        /// The number of failures of the element so far.
        failures: u32,
        /// The number of failures after which the element is left out.
        max_failures: u32,
        /// The failure, with the worker and the origin of the element.
        reason: String,
    },
    /// An exactly-once job leaves an element out, because an operation failed at it several times.
    ElementQuarantined {
        /// The number of the split in the source.
        split: u64,
        /// The number of failures of the element.
        failures: u32,
        /// The number of elements that this trainer leaves out so far.
        quarantined: u64,
        /// The number of elements that this trainer may leave out.
        max_quarantined: u64,
        /// The last failure, with the worker and the origin of the element.
        reason: String,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WorkerLost { worker, reason } => write!(
                f,
                "worker {worker} was given up: {reason}. Splits that it had begun may be lost; other workers read the remaining splits"
            ),
            Self::NoWorkers { dispatcher, since_s } => write!(
                f,
                "waiting for workers: none registered at {dispatcher} that this reader may read, since {since_s} s. Start workers: \
                 millstream worker --dispatcher {dispatcher}"
            ),
            Self::NoTasks { dispatcher, since_s } => write!(
                f,
                "waiting for the rest of the epoch: the dispatcher at {dispatcher} has had no task for this reader for \
                 {since_s} s. Other readers or workers may hold the remaining data"
            ),
            Self::WorkerUnreachable {
                worker,
                reason,
                since_s,
            } => write!(
                f,
                "waiting for worker {worker} for {since_s} s: {reason}. The reader retries it and reads from other workers"
            ),
            Self::TaskUnknown {
                worker,
                task,
                since_s,
            } => write!(
                f,
                "waiting for worker {worker} to know task {task}, or for the dispatcher to remove the task, for {since_s} s"
            ),
            Self::DataLost(loss) => loss.fmt(f),
            Self::SplitSkipped { split } => write!(
                f,
                "split {split} was skipped, because several workers died while they read it; its remaining elements are missing in this \
                 epoch"
            ),
            Self::ElementFailed {
                split,
                failures,
                max_failures,
                reason,
            } => write!(
                f,
                "attempt {failures} of {max_failures} at an element of split {split} failed, and another one follows: {reason}"
            ),
            Self::ElementQuarantined {
                split,
                failures,
                quarantined,
                max_quarantined,
                reason,
            } => write!(
                f,
                "an element of split {split} is missing in this epoch, because it failed {}: {reason}. This trainer leaves out \
                 {quarantined} of at most {max_quarantined} elements",
                times(*failures)
            ),
        }
    }
}

/// Returns "once", or the number with "times".
fn times(count: u32) -> String {
    match count {
        1 => "once".to_owned(),
        more => format!("{more} times"),
    }
}

/// The receiver of notices.
#[derive(Clone, Default)]
pub struct Notices {
    to: Option<OnNotice>,
}

impl Notices {
    /// Makes a receiver that sends notices to the callback, or to the log if the callback is `None`.
    pub fn new(to: Option<OnNotice>) -> Self {
        Self { to }
    }

    /// Sends a notice to the user. Must not be called under a lock.
    pub fn tell(&self, notice: &Notice) {
        match &self.to {
            Some(to) => to(notice),
            None => tracing::warn!("{notice}"),
        }
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notices").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_is_once() {
        let quarantined = |failures| Notice::ElementQuarantined {
            split: 7,
            failures,
            quarantined: 1,
            max_quarantined: 4,
            reason: "worker w: no".to_owned(),
        };
        let text = |failures| quarantined(failures).to_string();
        assert!(
            text(1).contains("because it failed once: worker w: no."),
            "{}",
            text(1)
        );
        assert!(
            text(3).contains("because it failed 3 times: worker w: no."),
            "{}",
            text(3)
        );
    }
}
