//! The orders that a worker receives from its agent.

use crate::dispatcher::{StopReason, TaskDef};
use crate::error::Error;
use crate::id::{ClientId, TaskId};

/// An order to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentEvent {
    /// Run a task.
    StartTask(TaskDef),
    /// Forget a task, with everything of it that is not delivered.
    StopTask {
        /// The task.
        task: TaskId,
        /// Why.
        reason: StopReason,
    },
    /// Serve a client of these tasks no more, and say with
    /// [`Agent::splits_missed`](super::Agent::splits_missed) what it took with it (C6.7).
    ReleaseClient {
        /// The client.
        client: ClientId,
        /// The tasks that it reads.
        tasks: Vec<TaskId>,
    },
    /// Forget all tasks: the dispatcher was out of reach for too long and has given them away, or it said so.
    /// The agent registers again by itself.
    LeaseLapsed,
    /// Forget all tasks: the dispatcher restarted without its memory. The agent registers again by itself.
    DispatcherRestarted,
    /// The service ends: forget all tasks, and leave.
    ShutDown {
        /// The name of the process that asked for the end.
        by: String,
    },
    /// The agent has ended: the dispatcher refuses this worker, or was out of reach for too long.
    Failed(Error),
}
