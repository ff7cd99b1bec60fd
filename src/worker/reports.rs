//! The reports about ended tasks to the dispatcher. Each report is a future of its own, so that an
//! unresponsive dispatcher delays no other work. The dispatcher receives every report once it responds.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use millstream_control::agent::Agent;
use millstream_control::{ClientId, Code, Error, TaskId};
use millstream_dataplane::worker::{MissedSplits, Server, SharedSplits};
use tokio::task::{AbortHandle, JoinSet};

use super::task::Outcome;

/// The time between two checks whether an ended task's elements have been sent.
const DRAIN_LOOK: Duration = Duration::from_millis(50);

/// The shortest and the longest pause before a report is retried. The pause doubles after each failure.
const PAUSE: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];

/// The reports in flight, at most one for each task of this registration. Reports end with the registration,
/// like the tasks.
pub(super) struct Reports {
    agent: Rc<Agent>,
    server: Server,
    under_way: JoinSet<TaskId>,
    aborts: BTreeMap<TaskId, AbortHandle>,
    /// The reports about clients' splits.
    missed: JoinSet<()>,
}

impl Reports {
    /// Creates an empty set of reports. Must be called on a lane.
    pub(super) fn new(agent: Rc<Agent>, server: Server) -> Self {
        Self {
            agent,
            server,
            under_way: JoinSet::new(),
            aborts: BTreeMap::new(),
            missed: JoinSet::new(),
        }
    }

    /// Reports the outcome of a task. For an exhausted task, also reports when its last elements have been
    /// sent.
    pub(super) fn begin(&mut self, task: TaskId, outcome: Outcome) {
        let (agent, server) = (self.agent.clone(), self.server.clone());
        let abort = self.under_way.spawn_local(async move {
            match outcome {
                Outcome::Exhausted => {
                    if until_heard(task, || agent.finish_task(task, false)).await {
                        until_settled(&server, task).await;
                        until_heard(task, || agent.finish_task(task, true)).await;
                    }
                }
                Outcome::Failed(report) => {
                    until_heard(task, || agent.fail_task(task, &report)).await;
                }
                Outcome::Stopped => {}
            }
            task
        });
        if let Some(earlier) = self.aborts.insert(task, abort) {
            earlier.abort();
        }
    }

    /// Reports the splits that departed clients took with them, and the splits that clients share, unless
    /// reported before.
    pub(super) fn tell_missed(&mut self) {
        for missed in self.server.take_missed() {
            self.say_missed(missed, false);
        }
        for shared in self.server.take_shared() {
            self.say_shared(shared);
        }
    }

    /// Stops serving a client, and reports the splits that it took with it (C6.7).
    pub(super) fn release(&mut self, client: ClientId, tasks: &[TaskId]) {
        for task in tasks {
            let missed = self
                .server
                .release(millstream_dataplane::TaskId(task.0), client.0);
            self.say_missed(missed, true);
        }
    }

    fn say_missed(&mut self, missed: MissedSplits, is_released: bool) {
        let (agent, server) = (self.agent.clone(), self.server.clone());
        self.missed.spawn_local(async move {
            let (task, client) = (TaskId(missed.task.0), ClientId(missed.client));
            let say = || agent.splits_missed(task, client, &missed.leases, is_released);
            if until_heard(task, say).await {
                server.note_heard(&missed);
            }
        });
    }

    fn say_shared(&mut self, shared: SharedSplits) {
        let (agent, server) = (self.agent.clone(), self.server.clone());
        self.missed.spawn_local(async move {
            let (task, client) = (TaskId(shared.task.0), ClientId(shared.client));
            let say = || agent.splits_shared(task, client, &shared.leases);
            if until_heard(task, say).await {
                server.note_shared(&shared);
            }
        });
    }

    /// Returns whether the dispatcher has received all reports.
    pub(super) fn are_heard(&self) -> bool {
        self.aborts.is_empty() && self.missed.is_empty()
    }

    /// Aborts the report about a task that the dispatcher has stopped.
    pub(super) fn abandon(&mut self, task: TaskId) {
        if let Some(report) = self.aborts.remove(&task) {
            report.abort();
        }
    }

    /// Aborts all reports.
    pub(super) fn abandon_all(&mut self) {
        self.under_way.abort_all();
        self.missed.abort_all();
        self.aborts.clear();
    }

    /// Waits until a report has ended. Without reports, waits for ever. Cancel-safe.
    pub(super) async fn reap(&mut self) {
        tokio::select! {
            Some(ended) = self.under_way.join_next() => {
                // An aborted report returns no task.
                if let Ok(task) = ended {
                    self.aborts.remove(&task);
                }
            }
            Some(_) = self.missed.join_next() => {}
            else => std::future::pending().await,
        }
    }

    /// Ends all reports.
    pub(super) async fn stop(mut self) {
        self.under_way.shutdown().await;
        self.missed.shutdown().await;
    }
}

/// Sends a report until the dispatcher receives it, and then returns `true`. Returns `false` if the
/// dispatcher refuses the report because the task was given to another worker.
async fn until_heard<F: Future<Output = Result<(), Error>>>(task: TaskId, say: impl Fn() -> F) -> bool {
    let [mut pause, longest] = PAUSE;
    loop {
        match say().await {
            Ok(()) => return true,
            Err(error) if matches!(error.code, Code::Unavailable | Code::DeadlineExceeded) => {
                tracing::debug!(%task, %error, "the dispatcher did not receive the report of a task's end; the report is sent again");
            }
            Err(error) => {
                tracing::info!(%task, %error, "the dispatcher refused the report of a task's end");
                return false;
            }
        }
        tokio::time::sleep(pause).await;
        pause = (2 * pause).min(longest);
    }
}

async fn until_settled(server: &Server, task: TaskId) {
    while !server.is_settled(millstream_dataplane::TaskId(task.0)) {
        tokio::time::sleep(DRAIN_LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn unheard_reports_are_repeated_while_wanted() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(async {
            let error = |code| Error {
                code,
                message: "the test says so".to_owned(),
            };
            let said = Cell::new(0);
            let heard = until_heard(TaskId(1), || {
                said.set(said.get() + 1);
                std::future::ready(match said.get() {
                    1 => Err(error(Code::Unavailable)),
                    2 => Err(error(Code::DeadlineExceeded)),
                    _ => Ok(()),
                })
            });
            assert!(heard.await);
            assert_eq!(said.get(), 3);
            let refused = || std::future::ready(Err(error(Code::Aborted)));
            assert!(!until_heard(TaskId(1), refused).await);
        });
    }
}
