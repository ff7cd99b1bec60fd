//! The errors that end reading, each naming the responsible party.

use millstream_dataplane::proto::message::Failure;
use thiserror::Error;

use crate::loss::DataLoss;

/// The reason why a reader yields no further elements although its iteration is not over. After the first
/// error, the reader returns the same error from every call.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReadError {
    /// A task failed because of its data or of a user's function.
    #[error("worker {worker}: {failure}")]
    Task {
        /// The worker that ran the task.
        worker: String,
        /// The failure that the worker reported.
        failure: Box<Failure>,
    },
    /// A worker cannot be reached, although the dispatcher considers it alive.
    #[error(
        "worker {worker} cannot be reached: {reason}; gave up after {after_s} s. Check that this host can send UDP packets to the worker"
    )]
    WorkerUnreachable {
        /// The address of the worker.
        worker: String,
        /// The failure of the last attempt.
        reason: String,
        /// The time spent on attempts, in seconds.
        after_s: u64,
    },
    /// A worker has reached its limit of links, either for this process or in total.
    #[error(
        "worker {worker} takes no further connection: {reason}; waited {after_s} s. Read fewer iterations at a time in one process, or \
         close some of the open readers"
    )]
    WorkerFull {
        /// The address of the worker.
        worker: String,
        /// The reason that the worker stated.
        reason: String,
        /// The time spent on attempts, in seconds.
        after_s: u64,
    },
    /// A worker sent something that a correct worker never sends.
    #[error("worker {worker} misbehaved: {reason}")]
    WorkerMisbehaved {
        /// The address of the worker.
        worker: String,
        /// Description of the violation.
        reason: String,
    },
    /// This reader sent something that a correct reader never sends, or uses another protocol version than
    /// the worker.
    #[error(
        "worker {worker} says that this reader broke the protocol: {reason}. Check that both run the same version of \
         Millstream"
    )]
    ReaderMisbehaved {
        /// The worker's address.
        worker: String,
        /// The reason that the worker stated.
        reason: String,
    },
    /// A worker refused this reader's subscription.
    #[error("worker {worker} refused task {task}: {reason}")]
    Refused {
        /// The address of the worker.
        worker: String,
        /// The number of the task.
        task: u64,
        /// The reason that the worker stated.
        reason: String,
    },
    /// Elements were lost with their worker. The reader returns this error in place of the end, after all
    /// other elements, unless [`ReaderConfig::on_lost`](crate::ReaderConfig::on_lost) says otherwise.
    #[error(
        "{0}. All other splits were delivered; set `on_lost` to \"warn\" or \"ignore\" to end without an error"
    )]
    DataLost(DataLoss),
    /// All workers, or all workers that could serve some share of the data, were lost.
    #[error("workers were lost and did not come back: {}; restart them, or raise the time limit for their return", workers.join(", "))]
    WorkersLost {
        /// The addresses of the lost workers.
        workers: Vec<String>,
    },
    /// No worker registered within the time limit.
    #[error(
        "no worker that this reader may read registered at {dispatcher} within {after_s} s: start one, or wait longer"
    )]
    NoWorkers {
        /// The dispatcher's address.
        dispatcher: String,
        /// The time spent on waiting, in seconds.
        after_s: u64,
    },
    /// Consumers of a coordinated read are missing, and the remaining consumers cannot continue without them.
    #[error(
        "consumers {consumers:?} of this coordinated read did not start, or have ended: no step can be completed without \
         them. Start all consumers again on another repetition"
    )]
    ConsumersLost {
        /// The numbers of the missing consumers.
        consumers: Vec<u32>,
    },
    /// The dispatcher failed, or was replaced by a dispatcher that does not know this reader.
    #[error("dispatcher: {0}")]
    Dispatcher(String),
    /// The dispatcher was out of reach for longer than the timeout.
    #[error("{0}")]
    DispatcherUnreachable(String),
    /// The dispatcher ended this reader's lease. Splits that the reader still held count as lost (C4.3,
    /// C6.7).
    #[error(
        "the dispatcher has ended this reader's lease: it received no heartbeat of the reader for too long, so \
         that its splits may count as lost or have been read again. Read the job again with a new reader"
    )]
    Lapsed,
    /// A process shut the service down.
    #[error("the service was shut down by {by}")]
    ShutDown {
        /// The name of the process that requested the shutdown.
        by: String,
    },
    /// One element is larger than the limit of bytes that may be outstanding.
    #[error(
        "an element of task {task} takes {element_bytes} bytes, more than max_outstanding_bytes ({max_outstanding_bytes}); raise that limit"
    )]
    ElementTooLarge {
        /// The number of the task.
        task: u64,
        /// The size of the element, in bytes.
        element_bytes: u64,
        /// The limit of outstanding bytes.
        max_outstanding_bytes: u64,
    },
    /// An element does not match the specification of its task.
    #[error("worker {worker} sent an element that cannot be read: {reason}")]
    Element {
        /// The address of the worker that sent the element.
        worker: String,
        /// Description of the fault.
        reason: String,
    },
    /// A part of the reader panicked.
    #[error(
        "a defect of the reader: {what} panicked: {message}. Please report this with the contents of the log"
    )]
    Internal {
        /// The name of the part that panicked.
        what: String,
        /// The message of the panic.
        message: String,
    },
    /// The reader was cancelled.
    #[error("the reader was cancelled")]
    Cancelled,
}

impl ReadError {
    /// Makes the error of a task that failed on a worker.
    pub(crate) fn task(worker: &str, failure: Failure) -> Self {
        Self::Task {
            worker: worker.to_owned(),
            failure: Box::new(failure),
        }
    }
}
