//! The running tasks of a worker. Dropping the tasks stops the tasks, so that no computation outlives the
//! worker.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use millstream_control::agent::Agent;
use millstream_control::{TaskDef, TaskId};
use millstream_dataplane::worker::Server;
use millstream_pipeline::exec::Cancel;

use super::pace::{TaskGauge, TaskMeter};

/// The tasks that run, or have ended and are still served.
pub(super) struct Tasks {
    server: Server,
    running: BTreeMap<TaskId, Running>,
    /// The tasks that have failed, which the worker's end need not wait for.
    failed: BTreeSet<TaskId>,
    /// The tasks that wait until other tasks are stopped, in the order of their arrival.
    waiting: VecDeque<TaskDef>,
    running_max: usize,
}

struct Running {
    cancel: Cancel,
    meter: Arc<TaskMeter>,
    gauge: TaskGauge,
}

impl Tasks {
    /// Creates an empty set of tasks, whose elements `server` serves. The server's limit on tasks limits the
    /// running tasks.
    pub(super) fn new(server: Server) -> Self {
        Self {
            running_max: server.tasks_max(),
            server,
            running: BTreeMap::new(),
            failed: BTreeSet::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Returns the task if it may start now. Otherwise queues the task, so that one reader's many jobs let no
    /// other job fail.
    pub(super) fn admit(&mut self, task: TaskDef) -> Option<TaskDef> {
        if self.waiting.is_empty() && self.running.len() < self.running_max {
            return Some(task);
        }
        if self.waiting.is_empty() {
            tracing::warn!(
                running = self.running.len(),
                "the worker runs its maximum number of tasks (tasks_max); further tasks wait until running tasks end"
            );
        }
        self.waiting.push_back(task);
        None
    }

    /// Removes and returns the task that has waited longest, if another task may run.
    pub(super) fn next_waiting(&mut self) -> Option<TaskDef> {
        if self.running.len() < self.running_max {
            self.waiting.pop_front()
        } else {
            None
        }
    }

    /// Adds a task that was started.
    pub(super) fn add(&mut self, task: TaskId, cancel: Cancel, meter: Arc<TaskMeter>) {
        let gauge = TaskGauge::default();
        let running = Running { cancel, meter, gauge };
        self.running.insert(task, running);
    }

    /// Reports the pace, the bottleneck and the stages of each task that has recorded them.
    pub(super) fn report_to(&mut self, agent: &Agent) {
        for (task, Running { meter, gauge, .. }) in &mut self.running {
            if let Some(pace) = gauge.pace(meter) {
                agent.note_pace(*task, pace);
            }
            if let Some(name) = meter.bottleneck() {
                agent.note_bottleneck(*task, &name);
            }
            let stages = meter.take_stages();
            if !stages.is_empty() {
                agent.note_stages(*task, stages);
            }
        }
    }

    /// Records that a task failed. The readers of a failed task may still have to receive the failure.
    pub(super) fn note_failed(&mut self, task: TaskId) {
        self.failed.insert(task);
    }

    /// Returns whether all remaining tasks have failed, so that no reader waits for elements.
    pub(super) fn are_over(&self) -> bool {
        self.running.keys().all(|task| self.failed.contains(task))
    }

    /// Starts the tasks from which no client has requested an element yet.
    pub(super) fn begin_all(&self) {
        for task in self.running.keys() {
            self.server.begin_task(millstream_dataplane::TaskId(task.0));
        }
    }

    /// Stops a task. The dispatcher informs the task's clients.
    pub(super) fn stop(&mut self, task: TaskId) {
        // The flag is raised first: a task that is about to be served checks the flag afterwards. Either that
        // check or this function removes the task.
        if let Some(running) = self.running.remove(&task) {
            running.cancel.cancel();
        }
        self.failed.remove(&task);
        self.waiting.retain(|waiting| waiting.task != task);
        self.server.remove_task(millstream_dataplane::TaskId(task.0));
    }

    /// Stops all tasks.
    pub(super) fn stop_all(&mut self) {
        self.waiting.clear();
        for task in self.running.keys().copied().collect::<Vec<_>>() {
            self.stop(task);
        }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.stop_all();
    }
}
