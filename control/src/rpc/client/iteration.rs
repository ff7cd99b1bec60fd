//! One client of an iteration: what it is told, what it reports, and its end.

use std::collections::VecDeque;
use std::sync::Arc;

use super::inbox::Inbox;
use super::pushes::Pushes;
use super::told::Told;
use crate::dispatcher::ClientPush;
use crate::error::{Code, Error};
use crate::id::{ClientId, TaskId};
use crate::pace::Pace;
use crate::rpc::session::{Contact, Session};
use crate::rpc::wire::{WireReply, WireRequest, unexpected};
use crate::split::{LeaseRange, Seen};

/// Ranges in one report: at 19 bytes each, two lists of them fit a small request.
const RANGES_MAX: usize = 1024;

/// A reader's lease on an iteration. Heartbeats are sent by themselves; dropping it releases it in the
/// background.
#[derive(Debug)]
pub struct IterationHandle {
    reporter: IterationReporter,
    pushes: Pushes,
    /// Told and not yet handed out.
    queue: VecDeque<ClientPush>,
    told: Told,
    released: bool,
}

/// Reports of a client, from anywhere in its process. Cheap to clone.
///
/// Every report may be repeated. The futures are not undone by dropping them.
#[derive(Clone, Debug)]
pub struct IterationReporter {
    session: Arc<Session>,
    client: ClientId,
}

impl IterationHandle {
    pub(super) fn open(session: Arc<Session>, inbox: Arc<Inbox>, client: ClientId) -> IterationHandle {
        session.clients().lock().insert(client);
        let pushes = Pushes::open(inbox, client, &session);
        IterationHandle {
            reporter: IterationReporter { session, client },
            pushes,
            queue: VecDeque::new(),
            told: Told::default(),
            released: false,
        }
    }

    /// The client's id.
    pub fn client_id(&self) -> ClientId {
        self.reporter.client
    }

    /// The dispatcher's address, as it was given.
    pub fn dispatcher(&self) -> String {
        self.reporter.session.address()
    }

    /// Says when the dispatcher comes into reach and goes out of it.
    pub fn contact(&self) -> Contact {
        self.reporter.session.contact()
    }

    /// For reports from elsewhere.
    pub fn reporter(&self) -> IterationReporter {
        self.reporter.clone()
    }

    /// The next thing the dispatcher says of the iteration: each task, removal and end once, also across
    /// reconnections.
    ///
    /// Never a [`ClientPush::Snapshot`]. Cancel-safe. At most 1024 wait here; a reader that falls behind
    /// misses none that still matters.
    ///
    /// # Errors
    /// The session has failed: the dispatcher restarted without its memory, or refuses us.
    pub async fn next_push(&mut self) -> Result<ClientPush, Error> {
        loop {
            if let Some(push) = self.queue.pop_front() {
                return Ok(push);
            }
            let push = self.pushes.next(&self.reporter.session).await?;
            self.confirm_verdicts(&push);
            self.queue.extend(self.told.news(push));
        }
    }

    /// C9.5: the dispatcher repeats a verdict until it knows that it has arrived. If this report is lost, it
    /// comes again.
    fn confirm_verdicts(&self, push: &ClientPush) {
        let verdicts = match push {
            ClientPush::TaskConcluded(verdict) => std::slice::from_ref(verdict),
            ClientPush::Snapshot(snapshot) => &snapshot.concluded,
            ClientPush::TaskAdded(_)
            | ClientPush::TaskRemoved(_)
            | ClientPush::TaskFailed { .. }
            | ClientPush::TaskEnded { .. }
            | ClientPush::SplitsLost { .. }
            | ClientPush::IterationFinished { .. }
            | ClientPush::TaskScheduled { .. }
            | ClientPush::ConsumersLost { .. }
            | ClientPush::WorkersLost { .. }
            | ClientPush::Lapsed
            | ClientPush::ShutDown { .. } => &[],
        };
        for verdict in verdicts {
            let (reporter, task) = (self.reporter.clone(), verdict.task);
            tokio::spawn(async move {
                let client = reporter.client;
                if let Err(error) = reporter.report(WireRequest::VerdictHeard { client, task }).await {
                    tracing::debug!(%client, %task, %error, "a verdict was not confirmed");
                }
            });
        }
    }

    /// Returns whether everything was handed out that is known here: behind the first thing, all of the first
    /// snapshot.
    pub fn is_all_told(&self) -> bool {
        self.queue.is_empty()
    }

    /// See [`IterationReporter::acknowledge_removal`].
    ///
    /// # Errors
    /// As there.
    pub async fn acknowledge_removal(&self, task: TaskId, seen: Seen) -> Result<(), Error> {
        self.reporter.acknowledge_removal(task, seen).await
    }

    /// See [`IterationReporter::splits_done`].
    ///
    /// # Errors
    /// As there.
    pub async fn splits_done(&self, task: TaskId, leases: &[LeaseRange]) -> Result<(), Error> {
        self.reporter.splits_done(task, leases).await
    }

    /// See [`IterationReporter::task_drained`].
    ///
    /// # Errors
    /// As there.
    pub async fn task_drained(&self, task: TaskId) -> Result<(), Error> {
        self.reporter.task_drained(task).await
    }

    /// Ends the client and waits until the dispatcher knows.
    ///
    /// # Errors
    /// The dispatcher does not answer; it releases the client itself after a while.
    pub async fn release(mut self) -> Result<(), Error> {
        self.released = true;
        let client = self.reporter.client;
        self.forget();
        self.reporter.report(WireRequest::Release { client }).await
    }

    /// Heartbeats do not mention it any more.
    fn forget(&self) {
        let (session, client) = (&self.reporter.session, self.reporter.client);
        session.clients().lock().remove(&client);
        session.paces().lock().forget_client(client);
    }
}

impl Drop for IterationHandle {
    fn drop(&mut self) {
        let client = self.reporter.client;
        self.forget();
        if self.released {
            return;
        }
        let reporter = self.reporter.clone();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = reporter.report(WireRequest::Release { client }).await {
                    tracing::debug!(%client, %error, "a client was not released");
                }
            });
        }
    }
}

impl IterationReporter {
    /// Says what was seen of a removed task. Until every client has, or a deadline passes, its splits wait.
    ///
    /// # Errors
    /// The dispatcher does not answer, or does not know this client.
    pub async fn acknowledge_removal(&self, task: TaskId, mut seen: Seen) -> Result<(), Error> {
        let client = self.client;
        let Seen {
            complete, partial, ..
        } = &mut seen;
        if complete.len() > RANGES_MAX {
            self.splits_done(task, complete).await?;
            complete.clear();
        }
        if let (true, Some(first), Some(last)) = (
            partial.len() > RANGES_MAX,
            partial.iter().min(),
            partial.iter().max(),
        ) {
            // Too many to name: everything between them counts as seen.
            let count = last.last().saturating_sub(first.first).saturating_add(1);
            *partial = vec![LeaseRange {
                first: first.first,
                count,
            }];
        }
        self.report(WireRequest::Acknowledge { client, task, seen }).await
    }

    /// Says that everything of these splits has arrived.
    ///
    /// # Errors
    /// The dispatcher does not answer, or does not know this client.
    pub async fn splits_done(&self, task: TaskId, leases: &[LeaseRange]) -> Result<(), Error> {
        for leases in leases.chunks(RANGES_MAX) {
            let request = WireRequest::SplitsDone {
                client: self.client,
                task,
                leases: leases.to_vec(),
            };
            self.report(request).await?;
        }
        Ok(())
    }

    /// Says that everything of these splits has arrived, and that elements of them wait to be handed over.
    ///
    /// # Errors
    /// The dispatcher does not answer, or does not know this client.
    pub async fn splits_waiting(&self, task: TaskId, leases: &[LeaseRange]) -> Result<(), Error> {
        for leases in leases.chunks(RANGES_MAX) {
            let request = WireRequest::SplitsWaiting(self.client, task, leases.to_vec());
            self.report(request).await?;
        }
        Ok(())
    }

    /// When the dispatcher may have released this client, unless it is heard of before (C4.4). `None`: nobody
    /// knows.
    pub fn lease_ends(&self) -> Option<tokio::time::Instant> {
        self.session.leases_end()
    }

    /// Says that a task's end has arrived, and everything before it.
    ///
    /// # Errors
    /// The dispatcher does not answer, or does not know this client.
    pub async fn task_drained(&self, task: TaskId) -> Result<(), Error> {
        let client = self.client;
        self.report(WireRequest::TaskDrained { client, task }).await
    }

    /// Says from which round on this consumer of a coordinated read can take in a task that was told of
    /// without a start: the first that its user has not begun, and does not begin before the start is known.
    ///
    /// # Errors
    /// The dispatcher does not answer, or does not know this client.
    pub async fn round_ready(&self, task: TaskId, earliest: u64) -> Result<(), Error> {
        let client = self.client;
        self.report(WireRequest::RoundReady {
            client,
            task,
            earliest,
        })
        .await
    }

    /// Says that this client has lost its link to the worker at this address, so that the dispatcher looks
    /// whether it lives.
    ///
    /// # Errors
    /// The dispatcher does not answer, or does not know this client.
    pub async fn suspect_worker(&self, address: &str) -> Result<(), Error> {
        let client = self.client;
        let address = address.to_owned();
        self.report(WireRequest::SuspectWorker(client, address)).await
    }

    /// Says with the next heartbeat how far this client's user has come, and how fast it would go.
    pub fn note_pace(&self, pace: Pace) {
        // One that was released meanwhile is not spoken of any more.
        if self.session.clients().lock().contains(&self.client) {
            self.session.paces().lock().note_client(self.client, pace);
        }
    }

    async fn report(&self, request: WireRequest) -> Result<(), Error> {
        let releases = matches!(request, WireRequest::Release { .. });
        let deadline = self.session.config().request_deadline;
        match self.session.call(request, deadline).await {
            Ok(WireReply::Done) => Ok(()),
            Ok(_) => Err(unexpected()),
            // It is gone already, which is what was wanted.
            Err(error) if releases && error.code == Code::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}
