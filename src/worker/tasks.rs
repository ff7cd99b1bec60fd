//! The tasks under way in a worker. Dropping them stops them, so that no worker leaves computations behind.

use std::collections::BTreeMap;

use millstream_control::TaskId;
use millstream_dataplane::worker::Server;
use millstream_pipeline::exec::Cancel;

/// The tasks under way, or ended and still served.
pub(super) struct Tasks {
    server: Server,
    running: BTreeMap<TaskId, Cancel>,
}

impl Tasks {
    /// None yet; their elements are served by `server`.
    pub(super) fn new(server: Server) -> Self {
        Self {
            server,
            running: BTreeMap::new(),
        }
    }

    /// Notes a task that was started.
    pub(super) fn add(&mut self, task: TaskId, cancel: Cancel) {
        self.running.insert(task, cancel);
    }

    /// Stops a task; its clients hear of it from the dispatcher.
    pub(super) fn stop(&mut self, task: TaskId) {
        // First the flag: a task that is about to be served looks at it afterwards, and so is removed by one of the two.
        if let Some(cancel) = self.running.remove(&task) {
            cancel.cancel();
        }
        self.server.remove_task(millstream_dataplane::TaskId(task.0));
    }

    /// Stops all of them.
    pub(super) fn stop_all(&mut self) {
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
