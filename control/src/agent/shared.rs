//! The state of an agent that its incarnations and its callers share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use millstream_link::{Endpoint, HostPorts};
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::config::AgentConfig;
use super::feed::{FeedControl, Returns};
use crate::error::Error;
use crate::id::TaskId;
use crate::job::Policy;
use crate::rpc::session::Session;

#[derive(Debug)]
pub(super) struct AgentShared {
    pub(super) endpoint: Endpoint,
    pub(super) dispatcher: HostPorts,
    pub(super) config: AgentConfig,
    /// The handle by which producers' threads outside of the runtime start tasks in it.
    pub(super) runtime: Handle,
    /// The session of the current incarnation.
    pub(super) session: Mutex<Option<Arc<Session>>>,
    /// The tasks of the current incarnation.
    pub(super) tasks: Mutex<Tasks>,
    /// The returns of unstarted splits of all tasks.
    pub(super) returning: Returns,
    /// True if the worker leaves, and must not register again.
    pub(super) leaving: AtomicBool,
    /// The error with which the dispatcher refused the worker the last time.
    pub(super) refusal: Mutex<Option<Error>>,
}

#[derive(Debug, Default)]
pub(super) struct Tasks {
    pub(super) controls: BTreeMap<TaskId, FeedControl>,
    /// True if the worker drains, so that neither present nor later tasks get splits.
    pub(super) is_draining: bool,
}

impl AgentShared {
    /// Ends the session, and cancels the waits of all producers.
    pub(super) fn end_incarnation(&self) {
        if let Some(session) = self.session.lock().take() {
            session.fail(Error::aborted("this worker has dropped its tasks"));
        }
        for control in std::mem::take(&mut self.tasks.lock().controls).into_values() {
            control.cancel();
        }
    }

    /// Returns whether the worker has announced that it leaves.
    pub(super) fn is_draining(&self) -> bool {
        self.tasks.lock().is_draining
    }

    pub(super) fn has_task(&self, task: TaskId) -> bool {
        self.tasks.lock().controls.contains_key(&task)
    }

    pub(super) fn task_ids(&self) -> Vec<TaskId> {
        self.tasks.lock().controls.keys().copied().collect()
    }

    pub(super) fn add_task(&self, task: TaskId, policy: Policy) {
        let control = FeedControl::new(policy, self.returning.clone());
        let mut tasks = self.tasks.lock();
        // The dispatcher assigned the task before it received the draining.
        if tasks.is_draining {
            control.drain();
        }
        tasks.controls.insert(task, control);
    }

    pub(super) fn take_task(&self, task: TaskId) -> Option<FeedControl> {
        self.tasks.lock().controls.remove(&task)
    }

    pub(super) fn control(&self, task: TaskId) -> Option<FeedControl> {
        self.tasks.lock().controls.get(&task).cloned()
    }
}
