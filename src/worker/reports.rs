//! The reports to the dispatcher of tasks that ended, each in a future of its own: a dispatcher that does not
//! answer keeps nothing else of the worker waiting, and hears of every end once it does.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use millstream_control::agent::Agent;
use millstream_control::{ClientId, Code, Error, TaskId};
use millstream_dataplane::worker::{MissedSplits, Server, SharedSplits};
use tokio::task::{AbortHandle, JoinSet};

use super::task::Outcome;

/// The time between two looks of an ended task whether its elements have left.
const DRAIN_LOOK: Duration = Duration::from_millis(50);

/// The pause before what was not heard is said again, which doubles from the first to the second.
const PAUSE: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];

/// The reports under way, at most one a task of this registration. They end with it, as its tasks do.
pub(super) struct Reports {
    agent: Rc<Agent>,
    server: Server,
    under_way: JoinSet<TaskId>,
    aborts: BTreeMap<TaskId, AbortHandle>,
    /// The reports of clients' splits.
    missed: JoinSet<()>,
}

impl Reports {
    /// None yet. Must be used on a lane.
    pub(super) fn new(agent: Rc<Agent>, server: Server) -> Self {
        Self {
            agent,
            server,
            under_way: JoinSet::new(),
            aborts: BTreeMap::new(),
            missed: JoinSet::new(),
        }
    }

    /// Reports how a task ended and, if it came to its end, when its last elements have left.
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
                Outcome::Failed(message) => {
                    until_heard(task, || agent.fail_task(task, &message)).await;
                }
                Outcome::Stopped => {}
            }
            task
        });
        if let Some(earlier) = self.aborts.insert(task, abort) {
            earlier.abort();
        }
    }

    /// Says what clients took with them that are gone, and which splits clients share, as far as nothing was
    /// said of it.
    pub(super) fn tell_missed(&mut self) {
        for missed in self.server.take_missed() {
            self.say_missed(missed, false);
        }
        for shared in self.server.take_shared() {
            self.say_shared(shared);
        }
    }

    /// Serves a client no more, and says what it took with it (C6.7).
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

    /// Returns whether nothing is left to be said.
    pub(super) fn are_heard(&self) -> bool {
        self.aborts.is_empty() && self.missed.is_empty()
    }

    /// Says nothing more of a task: the dispatcher has taken it away.
    pub(super) fn abandon(&mut self, task: TaskId) {
        if let Some(report) = self.aborts.remove(&task) {
            report.abort();
        }
    }

    /// Says nothing more of any task.
    pub(super) fn abandon_all(&mut self) {
        self.under_way.abort_all();
        self.missed.abort_all();
        self.aborts.clear();
    }

    /// Waits until one has ended; for ever when there is none. Cancel-safe.
    pub(super) async fn reap(&mut self) {
        tokio::select! {
            Some(ended) = self.under_way.join_next() => {
                // One that was abandoned has no task.
                if let Ok(task) = ended {
                    self.aborts.remove(&task);
                }
            }
            Some(_) = self.missed.join_next() => {}
            else => std::future::pending().await,
        }
    }

    /// Ends them all.
    pub(super) async fn stop(mut self) {
        self.under_way.shutdown().await;
        self.missed.shutdown().await;
    }
}

/// Says something until it was heard: true. False when it is not wanted, since the task was given away.
async fn until_heard<F: Future<Output = Result<(), Error>>>(task: TaskId, say: impl Fn() -> F) -> bool {
    let [mut pause, longest] = PAUSE;
    loop {
        match say().await {
            Ok(()) => return true,
            Err(error) if matches!(error.code, Code::Unavailable | Code::DeadlineExceeded) => {
                tracing::debug!(%task, %error, "the end of a task was not heard; it is said again");
            }
            Err(error) => {
                tracing::info!(%task, %error, "the end of a task was not wanted");
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
