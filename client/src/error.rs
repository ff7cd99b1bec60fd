//! Why reading stopped, by who is to blame.

use millstream_dataplane::proto::message::Failure;
use thiserror::Error;

use crate::loss::DataLoss;

/// Why a reader has no further elements although its iteration is not over. Once returned, it is returned
/// again.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// A task failed: its data, or a user's function.
    #[error("worker {worker}: {failure}")]
    Task {
        /// The worker that ran it.
        worker: String,
        /// The failure that the worker reported.
        failure: Failure,
    },
    /// A worker that the dispatcher holds to be alive cannot be reached.
    #[error(
        "worker {worker} cannot be reached: {reason}; gave up after {after_s} s. Check that this host may send UDP to it"
    )]
    WorkerUnreachable {
        /// The address.
        worker: String,
        /// The last failure.
        reason: String,
        /// Seconds of trying.
        after_s: u64,
    },
    /// A worker has as many links as it takes, from this process or in all.
    #[error(
        "worker {worker} takes no further connection: {reason}; waited {after_s} s. Read fewer iterations at a time in one process, or \
         end some of those that are open"
    )]
    WorkerFull {
        /// The address.
        worker: String,
        /// The reason that it gave.
        reason: String,
        /// Seconds of trying.
        after_s: u64,
    },
    /// A worker said what no correct worker says.
    #[error("worker {worker} misbehaved: {reason}")]
    WorkerMisbehaved {
        /// The address.
        worker: String,
        /// The violation.
        reason: String,
    },
    /// This reader said what no correct reader says, or speaks another version than the worker.
    #[error(
        "worker {worker} says that this reader broke the protocol: {reason}. Check that both run the same version of \
         Millstream"
    )]
    ReaderMisbehaved {
        /// The worker's address.
        worker: String,
        /// The reason that it gives.
        reason: String,
    },
    /// A worker does not accept this reader.
    #[error("worker {worker} refused task {task}: {reason}")]
    Refused {
        /// The address.
        worker: String,
        /// The task.
        task: u64,
        /// The reason that it gave.
        reason: String,
    },
    /// Elements were lost with their worker. Everything else was handed over before: this stands in place of
    /// the end, unless [`ReaderConfig::on_lost`](crate::ReaderConfig::on_lost) says otherwise.
    #[error("{0}. All others were delivered; `on_lost` set to \"warn\" or \"ignore\" ends without an error")]
    DataLost(DataLoss),
    /// No worker is left to read from, or none for a share of the data.
    #[error("workers were lost and did not come back: {}; start them again, or raise the grace they have", workers.join(", "))]
    WorkersLost {
        /// Their addresses.
        workers: Vec<String>,
    },
    /// No worker came.
    #[error(
        "no worker that this reader may read registered at {dispatcher} within {after_s} s: start one, or wait longer"
    )]
    NoWorkers {
        /// The dispatcher's address.
        dispatcher: String,
        /// Seconds of waiting.
        after_s: u64,
    },
    /// Consumers of a coordinated read are missing: nobody can go on without them.
    #[error(
        "consumers {consumers:?} of this coordinated read did not come, or are gone: no step can be completed without \
         them. Start all consumers again on another repetition"
    )]
    ConsumersLost {
        /// Their numbers.
        consumers: Vec<u32>,
    },
    /// The dispatcher is gone for good, or cannot go on.
    #[error("dispatcher: {0}")]
    Dispatcher(String),
    /// The dispatcher was out of reach for too long.
    #[error("{0}")]
    DispatcherUnreachable(String),
    /// The dispatcher ended this reader's lease, and counts what it had in hand as lost (C4.3, C6.7).
    #[error(
        "the dispatcher has ended this reader's lease: it was not heard of for too long, and others have counted on that. Read the \
         job again with a new reader"
    )]
    Lapsed,
    /// Somebody has ended the service.
    #[error("the service was shut down by {by}")]
    ShutDown {
        /// The name of the process that asked for the end.
        by: String,
    },
    /// One element is larger than all that may be outstanding.
    #[error(
        "an element of task {task} takes {element_bytes} bytes, more than max_outstanding_bytes ({max_outstanding_bytes}); raise it"
    )]
    ElementTooLarge {
        /// The task.
        task: u64,
        /// The bytes of the element.
        element_bytes: u64,
        /// The bytes that may be outstanding.
        max_outstanding_bytes: u64,
    },
    /// An element is not what its task's specification says.
    #[error("worker {worker} sent an element that cannot be read: {reason}")]
    Element {
        /// The worker that sent it.
        worker: String,
        /// The fault.
        reason: String,
    },
    /// A part of the reader panicked.
    #[error(
        "a defect of the reader: {what} panicked: {message}. Please report it with what stands in the log"
    )]
    Internal {
        /// The name of the part.
        what: String,
        /// The panic's message.
        message: String,
    },
    /// The reader was cancelled.
    #[error("the reader was cancelled")]
    Cancelled,
}

impl ReadError {
    /// A task failed, by the dispatcher's account.
    pub(crate) fn task(worker: &str, message: &str) -> Self {
        Self::Task {
            worker: worker.to_owned(),
            failure: Failure::new("task", message, "", ""),
        }
    }
}
