//! The orders that a worker receives from its agent.

use crate::dispatcher::{StopReason, TaskDef};
use crate::error::Error;
use crate::id::{ClientId, TaskId};

/// An order to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentEvent {
    /// The order to run a task.
    StartTask(TaskDef),
    /// The order to forget a task, together with its undelivered elements.
    StopTask {
        /// The task to stop.
        task: TaskId,
        /// The reason for the order.
        reason: StopReason,
    },
    /// The order to stop serving a client that is gone, in all of its tasks on this worker. The worker
    /// reports the splits that the client held with [`Agent::splits_missed`](super::Agent::splits_missed)
    /// (C6.7).
    ReleaseClient {
        /// The client that is gone.
        client: ClientId,
        /// The worker's tasks that the client reads.
        tasks: Vec<TaskId>,
    },
    /// The order to forget all tasks. The dispatcher was unreachable for too long and has given the tasks
    /// away, or has given this worker up. The agent registers again by itself.
    LeaseLapsed,
    /// The order to forget all tasks, because the dispatcher restarted without its memory. The agent
    /// registers again by itself.
    DispatcherRestarted,
    /// The shutdown of the service: the worker forgets all tasks, and leaves.
    ShutDown {
        /// The name of the process that asked for the shutdown.
        by: String,
    },
    /// The end of the agent: the dispatcher refuses this worker, or was unreachable for too long.
    Failed(Error),
}
