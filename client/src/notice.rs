//! Notices for the user of a reader while reading goes on: workers that are gone, waits, and losses.
//!
//! This file owns the sentences. It does not know how they reach the user: a callback takes them, or the log.

use std::fmt;
use std::sync::Arc;

use crate::loss::DataLoss;

/// Told of each notice, on a thread of the reader's: must not block.
pub type OnNotice = Arc<dyn Fn(&Notice) + Send + Sync>;

/// Something that the user should hear of. Its text is a sentence without a full stop.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// The dispatcher gave a worker up: what it had begun is lost, the rest is read from others.
    WorkerLost {
        /// The address.
        worker: String,
        /// Why.
        reason: String,
    },
    /// There is no worker for this reader yet.
    NoWorkers {
        /// The dispatcher's address.
        dispatcher: String,
        /// Seconds of waiting.
        since_s: u64,
    },
    /// All tasks of this reader have ended, and the iteration has not.
    NoTasks {
        /// The dispatcher's address.
        dispatcher: String,
        /// Seconds of waiting.
        since_s: u64,
    },
    /// A worker that the dispatcher holds to be alive cannot be reached. Others are read meanwhile.
    WorkerUnreachable {
        /// The address.
        worker: String,
        /// The last failure.
        reason: String,
        /// Seconds of trying.
        since_s: u64,
    },
    /// A worker does not have a task that the dispatcher says it has. Others are read meanwhile.
    TaskUnknown {
        /// The address.
        worker: String,
        /// The task.
        task: u64,
        /// Seconds of asking.
        since_s: u64,
    },
    /// The iteration is over, and splits of it were lost.
    DataLost(DataLoss),
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WorkerLost { worker, reason } => write!(
                f,
                "worker {worker} was given up: {reason}. Splits that it had begun may be lost; others read the rest"
            ),
            Self::NoWorkers { dispatcher, since_s } => write!(
                f,
                "waiting for workers: none registered at {dispatcher} that this reader may read, since {since_s} s"
            ),
            Self::NoTasks { dispatcher, since_s } => write!(
                f,
                "waiting for the rest of the epoch: the dispatcher at {dispatcher} has nothing further for this reader, since \
                 {since_s} s. Other readers or workers may have it"
            ),
            Self::WorkerUnreachable {
                worker,
                reason,
                since_s,
            } => write!(
                f,
                "waiting for worker {worker}, since {since_s} s: {reason}. It is tried again while others are read"
            ),
            Self::TaskUnknown {
                worker,
                task,
                since_s,
            } => write!(
                f,
                "waiting for worker {worker} to have task {task} or for the dispatcher to take it away, since {since_s} s"
            ),
            Self::DataLost(loss) => loss.fmt(f),
        }
    }
}

/// The receiver of notices.
#[derive(Clone, Default)]
pub(crate) struct Notices {
    to: Option<OnNotice>,
}

impl Notices {
    /// Sends notices to a callback, if there is one; else to the log.
    pub(crate) fn new(to: Option<OnNotice>) -> Self {
        Self { to }
    }

    /// Tells the user. Not under a lock.
    pub(crate) fn tell(&self, notice: &Notice) {
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
