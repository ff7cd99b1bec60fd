//! The source from which a task receives its splits.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use thiserror::Error;

use super::error::{ErrorKind, ExecError};
use crate::storage::FileVersion;

/// A leased part of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// The source of the split, as an index among the graph's sources, depth first.
    pub source: u32,
    /// The pass over the source to which the split belongs, counted from 0.
    pub repetition: u64,
    /// The number of the split in its source, which determines its positions.
    pub index: u64,
    /// The lease under which the task owns the split.
    pub lease: u64,
    /// The attempt number: 0 for the first lease, increased by one with each further lease.
    pub attempt: u32,
    /// `true` if the split was given up, so that a dataset that runs on each split alone yields only the end
    /// of the split.
    pub skipped: bool,
    /// The payload of the split in the plan: for `files`, the path.
    pub payload: Vec<u8>,
    /// The version that the file of the split had when the epoch was planned; `None` if it is unknown.
    pub version: Option<FileVersion>,
}

/// A supplier of splits; in practice the dispatcher supplies them.
pub trait SplitSource: Send {
    /// Returns the next split of `source` in its pass `repetition`, or `None` once the pass has no more
    /// splits for this task. Callers request the passes of a source in ascending order; a pass that is no
    /// longer current has no splits. Blocks.
    ///
    /// # Errors
    /// [`SplitError`] if the dispatcher does not answer, or if the task was removed.
    fn next(&mut self, source: u32, repetition: u64) -> Result<Option<Split>, SplitError>;

    /// Returns the next split of `source` in its pass `repetition` if the task has its lease already. Does
    /// not block. A caller that still reads another split uses this method, so that a blocking request always
    /// means that the task has read all its splits.
    fn next_at_hand(&mut self, source: u32, repetition: u64) -> Option<Split> {
        let _ = (source, repetition);
        None
    }

    /// Takes the splits of `source` that are leased to the task but were not requested, because the task has
    /// left their pass. Nobody reads the splits, so they are finished at once. Blocks while further splits
    /// are on their way.
    ///
    /// # Errors
    /// [`SplitError`] if the dispatcher does not answer, or if the task was removed.
    fn pass_over(&mut self, source: u32) -> Result<Vec<Split>, SplitError> {
        let _ = source;
        Ok(Vec::new())
    }

    /// Returns the pass over `source` whose splits are handed out now, as far as earlier answers have shown.
    /// Earlier passes have no more splits and need not be requested.
    fn current(&self, source: u32) -> Option<u64> {
        let _ = source;
        None
    }

    /// Returns whether no pass of any source has more splits for this task, even if other tasks may get some.
    /// The task then ends with the splits that it has begun. Once true, the result stays true.
    fn is_draining(&self) -> bool {
        false
    }
}

/// The reason why a request for splits has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SplitError {
    /// The task was removed or its worker is stopping.
    #[error("the task is being stopped")]
    Cancelled,
    /// The dispatcher did not answer, or refused the request.
    #[error("the dispatcher returned no split: {0}")]
    Dispatcher(String),
}

/// The splits of one task, shared by the sources of its tree. While one source waits for a split, the other
/// sources wait too.
#[derive(Clone)]
pub(crate) struct Feed {
    source: Arc<Mutex<Box<dyn SplitSource>>>,
}

impl Feed {
    pub(crate) fn new(source: Box<dyn SplitSource>) -> Feed {
        Feed {
            source: Arc::new(Mutex::new(source)),
        }
    }

    pub(crate) fn next(&self, op: &str, source: u32, repetition: u64) -> Result<Option<Split>, ExecError> {
        let answer = self.source.lock().next(source, repetition);
        answer.map_err(|error| failed(op, &error))
    }

    pub(crate) fn next_at_hand(&self, source: u32, repetition: u64) -> Option<Split> {
        self.source.lock().next_at_hand(source, repetition)
    }

    pub(crate) fn pass_over(&self, op: &str, source: u32) -> Result<Vec<Split>, ExecError> {
        let passed = self.source.lock().pass_over(source);
        passed.map_err(|error| failed(op, &error))
    }

    pub(crate) fn current(&self, source: u32) -> Option<u64> {
        self.source.lock().current(source)
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.source.lock().is_draining()
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Feed").finish_non_exhaustive()
    }
}

fn failed(op: &str, error: &SplitError) -> ExecError {
    match error {
        SplitError::Cancelled => ExecError::cancelled(op),
        SplitError::Dispatcher(_) => ExecError::new(ErrorKind::Peer, op, error.to_string()),
    }
}
