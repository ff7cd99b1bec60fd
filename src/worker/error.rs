//! The error of a worker as a whole. A task's own errors are reported to the dispatcher.

use millstream_control::Error;
use millstream_link::LaneError;
use thiserror::Error;

/// The reason why a worker cannot start, or why it ended.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// The caller's address of the dispatcher is invalid.
    #[error("dispatcher address: {0}")]
    Address(String),
    /// The caller's settings contradict each other.
    #[error("{0}")]
    Settings(String),
    /// The address is in use or does not belong to this machine, or the key does not permit it.
    #[error("{0}")]
    Bind(String),
    /// The dispatcher is unreachable, or refuses the worker.
    #[error(transparent)]
    Dispatcher(#[from] Error),
    /// The system refused a resource, for example a thread.
    #[error("{0}")]
    Resource(String),
    /// A thread of the worker panicked, which is a bug.
    #[error(transparent)]
    Lane(#[from] LaneError),
    /// The worker was stopped before it had started.
    #[error("the worker was stopped before it had started")]
    GivenUp,
}
