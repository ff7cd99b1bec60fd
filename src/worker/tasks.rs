//! The tasks under way in a worker. Dropping them stops them, so that no worker leaves computations behind.

use std::collections::BTreeMap;
use std::thread::JoinHandle;

use millstream_control::TaskId;
use millstream_dataplane::worker::Server;
use millstream_pipeline::exec::Cancel;

/// The tasks under way.
pub(super) struct Tasks {
    server: Server,
    running: BTreeMap<TaskId, Running>,
}

/// A task under way.
struct Running {
    cancel: Cancel,
    thread: JoinHandle<()>,
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
    pub(super) fn add(&mut self, task: TaskId, cancel: Cancel, thread: JoinHandle<()>) {
        self.running.insert(task, Running { cancel, thread });
    }

    /// Stops a task; its clients hear that it ended.
    pub(super) fn stop(&mut self, task: TaskId) {
        self.server.remove_task(millstream_dataplane::TaskId(task.0));
        if let Some(running) = self.running.remove(&task) {
            running.cancel.cancel();
            // Ends by itself now; a stuck function keeps the thread, which nothing can take back.
            drop(running.thread);
        }
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
