//! The error of a worker as a whole. Errors of single tasks are reported to the dispatcher.

use millstream_control::Error;
use millstream_link::LaneError;
use thiserror::Error;

/// The reason why a worker cannot start, or why it ended.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// The caller gave a text that is no address.
    #[error("dispatcher address: {0}")]
    Address(String),
    /// The caller's settings contradict each other.
    #[error("{0}")]
    Settings(String),
    /// The address is taken or is not this machine's, or the key does not allow it.
    #[error("{0}")]
    Bind(String),
    /// The dispatcher cannot be reached, or refuses this worker.
    #[error(transparent)]
    Dispatcher(#[from] Error),
    /// The system gives no thread.
    #[error("{0}")]
    Resource(String),
    /// A thread of the worker panicked, which is a bug.
    #[error(transparent)]
    Lane(#[from] LaneError),
    /// The worker was stopped before it had started.
    #[error("the worker was stopped before it had started")]
    GivenUp,
}
