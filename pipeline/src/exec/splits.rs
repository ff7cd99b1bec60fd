//! The source of a task's splits.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use thiserror::Error;

use super::error::{ErrorKind, ExecError};

/// A leased share of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// The source: its index among the graph's sources, depth first.
    pub source: u32,
    /// The pass over the source it belongs to, from 0.
    pub repetition: u64,
    /// Number of the split in its source, which determines the positions.
    pub index: u64,
    /// The lease under which the task has it.
    pub lease: u64,
    /// How many times it was leased before.
    pub attempt: u32,
    /// Payload of the split in the plan: for `files`, the path.
    pub payload: Vec<u8>,
}

/// Hands out splits, in practice from the dispatcher.
pub trait SplitSource: Send {
    /// The next split of `source` in its pass `repetition`; `None` once the pass has no more for this task.
    /// Passes of one source are asked for in ascending order, and a pass that is not the current one any more
    /// has none. Blocks.
    ///
    /// # Errors
    /// [`SplitError`] when the dispatcher cannot be asked, or the task is gone.
    fn next(&mut self, source: u32, repetition: u64) -> Result<Option<Split>, SplitError>;

    /// Takes splits of `source` that are leased to the task and were not asked for, because the task has left
    /// that pass: nobody reads it, and it is finished at once. Blocks while more of it is under way.
    ///
    /// # Errors
    /// As [`SplitSource::next`].
    fn pass_over(&mut self, source: u32) -> Result<Vec<Split>, SplitError> {
        let _ = source;
        Ok(Vec::new())
    }

    /// The pass over `source` that is being dealt out, as far as the answers so far have told. Earlier ones
    /// have nothing more to deal out and need not be asked for.
    fn current(&self, source: u32) -> Option<u64> {
        let _ = source;
        None
    }

    /// Returns whether no pass of any source has more splits for this task, even if others may get some: it
    /// is to end with what it has begun. Once true, true for good.
    fn is_draining(&self) -> bool {
        false
    }
}

/// Why there is no answer about splits.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SplitError {
    /// The task was removed or its worker is stopping.
    #[error("the task is being stopped")]
    Cancelled,
    /// The dispatcher did not answer, or refused.
    #[error("the dispatcher gave no split: {0}")]
    Dispatcher(String),
}

/// The splits of one task, shared by the sources of its tree. A source that waits keeps the others waiting.
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
