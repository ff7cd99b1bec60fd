//! The tasks under way in a worker. Dropping them stops them, so that no worker leaves computations behind.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use millstream_control::{Pace, TaskDef, TaskId};
use millstream_dataplane::worker::Server;
use millstream_pipeline::exec::Cancel;

use super::pace::{TaskGauge, TaskMeter};

/// The tasks under way, or ended and still served.
pub(super) struct Tasks {
    server: Server,
    running: BTreeMap<TaskId, Running>,
    /// The failed tasks among them, which have nothing left to wait for.
    failed: BTreeSet<TaskId>,
    /// Tasks that wait until others are stopped, in the order in which they came.
    waiting: VecDeque<TaskDef>,
    running_max: usize,
}

struct Running {
    cancel: Cancel,
    meter: Arc<TaskMeter>,
    gauge: TaskGauge,
}

impl Tasks {
    /// None yet; their elements are served by `server`, and as many may run as it serves.
    pub(super) fn new(server: Server) -> Self {
        Self {
            running_max: server.tasks_max(),
            server,
            running: BTreeMap::new(),
            failed: BTreeSet::new(),
            waiting: VecDeque::new(),
        }
    }

    /// Returns a task that may start now. Keeps it for later where as many run as may: one reader's many jobs
    /// fail nobody's.
    pub(super) fn admit(&mut self, task: TaskDef) -> Option<TaskDef> {
        if self.waiting.is_empty() && self.running.len() < self.running_max {
            return Some(task);
        }
        if self.waiting.is_empty() {
            tracing::warn!(
                running = self.running.len(),
                "tasks wait until others end: there are as many as may be (tasks_max)"
            );
        }
        self.waiting.push_back(task);
        None
    }

    /// Returns the task that has waited longest, if there is room for one.
    pub(super) fn next_waiting(&mut self) -> Option<TaskDef> {
        if self.running.len() < self.running_max {
            self.waiting.pop_front()
        } else {
            None
        }
    }

    /// Notes a task that was started.
    pub(super) fn add(&mut self, task: TaskId, cancel: Cancel, meter: Arc<TaskMeter>) {
        let gauge = TaskGauge::default();
        let running = Running { cancel, meter, gauge };
        self.running.insert(task, running);
    }

    /// Returns how fast each goes that has begun.
    pub(super) fn paces(&mut self) -> impl Iterator<Item = (TaskId, Pace)> + '_ {
        let all = self.running.iter_mut();
        all.filter_map(|(task, running)| Some((*task, running.gauge.pace(&running.meter)?)))
    }

    /// Returns the bottleneck of each task that has said it.
    pub(super) fn bottlenecks(&self) -> impl Iterator<Item = (TaskId, String)> + '_ {
        let all = self.running.iter();
        all.filter_map(|(task, running)| Some((*task, running.meter.bottleneck()?)))
    }

    /// Notes that a task failed; its readers may still be told.
    pub(super) fn note_failed(&mut self, task: TaskId) {
        self.failed.insert(task);
    }

    /// Returns whether none is left that somebody waits for.
    pub(super) fn are_over(&self) -> bool {
        self.running.keys().all(|task| self.failed.contains(task))
    }

    /// Lets those begin that no client has asked for an element.
    pub(super) fn begin_all(&self) {
        for task in self.running.keys() {
            self.server.begin_task(millstream_dataplane::TaskId(task.0));
        }
    }

    /// Stops a task; its clients hear of it from the dispatcher.
    pub(super) fn stop(&mut self, task: TaskId) {
        // First the flag: a task that is about to be served looks at it afterwards, and so is removed by one
        // of the two.
        if let Some(running) = self.running.remove(&task) {
            running.cancel.cancel();
        }
        self.failed.remove(&task);
        self.waiting.retain(|waiting| waiting.task != task);
        self.server.remove_task(millstream_dataplane::TaskId(task.0));
    }

    /// Stops all of them.
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
