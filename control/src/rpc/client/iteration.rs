//! One client of an iteration: its pushes, its reports, and its end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::inbox::Inbox;
use super::pushes::Pushes;
use super::told::Told;
use crate::dispatcher::ClientPush;
use crate::error::{Code, Error};
use crate::id::{ClientId, TaskId};
use crate::links::ClientLinks;
use crate::pace::Pace;
use crate::rpc::session::{Contact, Session};
use crate::rpc::wire::{WireReply, WireRequest, unexpected};
use crate::split::{LeaseRange, Seen};

/// Maximum number of ranges in one report. At 19 bytes each, two lists of them fit in a small request.
const RANGES_MAX: usize = 1024;

/// The time after which a refused confirmation is sent again.
const CONFIRM_AGAIN: Duration = Duration::from_secs(1);

/// A reader's lease on an iteration. The session sends heartbeats for the client in the background.
/// Dropping the value releases the client in the background.
#[derive(Debug)]
pub struct IterationHandle {
    reporter: IterationReporter,
    files: Option<u64>,
    pushes: Pushes,
    /// The pushes that were received and not yet returned.
    queue: VecDeque<ClientPush>,
    told: Told,
    released: bool,
}

/// The reports of a client, which any task of its process may send. Cheap to clone.
///
/// Every report may be repeated. Dropping a report's future does not undo the report.
#[derive(Clone, Debug)]
pub struct IterationReporter {
    session: Arc<Session>,
    client: ClientId,
}

impl IterationHandle {
    pub(super) fn open(
        session: Arc<Session>,
        inbox: Arc<Inbox>,
        (client, files): (ClientId, Option<u64>),
    ) -> IterationHandle {
        session.clients().lock().insert(client);
        let pushes = Pushes::open(inbox, client, &session);
        IterationHandle {
            reporter: IterationReporter { session, client },
            files,
            pushes,
            queue: VecDeque::new(),
            told: Told::default(),
            released: false,
        }
    }

    /// Returns the client's id.
    pub fn client_id(&self) -> ClientId {
        self.reporter.client
    }

    /// Returns the digest of the files that the iteration reads (C16.11), which a saved position keeps.
    /// `None` for other jobs than exactly-once jobs, and for sources without files.
    pub fn files(&self) -> Option<u64> {
        self.files
    }

    /// Returns the dispatcher's address in its original text.
    pub fn dispatcher(&self) -> String {
        self.reporter.session.address()
    }

    /// Returns a view that reports when the dispatcher becomes reachable or unreachable.
    pub fn contact(&self) -> Contact {
        self.reporter.session.contact()
    }

    /// Returns a handle for reports from other tasks of this process.
    pub fn reporter(&self) -> IterationReporter {
        self.reporter.clone()
    }

    /// Returns the next push of the dispatcher about the iteration. Each task, removal and end is returned
    /// once, also across reconnections.
    ///
    /// Never returns a [`ClientPush::Snapshot`]. Cancel-safe. At most 1024 pushes wait here; a slow reader
    /// loses no push that still matters.
    ///
    /// # Errors
    /// The session has failed: the dispatcher restarted without its memory, or refuses this process.
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

    /// Confirms the verdicts of a push. The dispatcher repeats a verdict until the client has confirmed it,
    /// so a lost confirmation is sent again (C9.5).
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
                while let Err(error) = reporter.report(WireRequest::VerdictHeard { client, task }).await {
                    tracing::debug!(%client, %task, %error, "a verdict was not confirmed");
                    // A full store refuses the confirmation, and the iteration does not end without it.
                    if error.code != Code::Unavailable || !reporter.is_open() {
                        break;
                    }
                    tokio::time::sleep(CONFIRM_AGAIN).await;
                }
            });
        }
    }

    /// Returns whether all received pushes were returned. After the first push, they include the whole
    /// first snapshot.
    pub fn is_all_told(&self) -> bool {
        self.queue.is_empty()
    }

    /// Reports the splits seen of a removed task, like [`IterationReporter::acknowledge_removal`].
    ///
    /// # Errors
    /// See [`IterationReporter::acknowledge_removal`].
    pub async fn acknowledge_removal(&self, task: TaskId, seen: Seen) -> Result<(), Error> {
        self.reporter.acknowledge_removal(task, seen).await
    }

    /// Reports finished splits, like [`IterationReporter::splits_done`].
    ///
    /// # Errors
    /// See [`IterationReporter::splits_done`].
    pub async fn splits_done(&self, task: TaskId, leases: &[LeaseRange]) -> Result<(), Error> {
        self.reporter.splits_done(task, leases).await
    }

    /// Reports a task's end, like [`IterationReporter::task_drained`].
    ///
    /// # Errors
    /// See [`IterationReporter::task_drained`].
    pub async fn task_drained(&self, task: TaskId) -> Result<(), Error> {
        self.reporter.task_drained(task).await
    }

    /// Ends the client and waits until the dispatcher has released it.
    ///
    /// # Errors
    /// The dispatcher does not answer; it releases the client by itself after the client timeout.
    pub async fn release(mut self) -> Result<(), Error> {
        self.released = true;
        let client = self.reporter.client;
        self.forget();
        self.reporter.report(WireRequest::Release { client }).await
    }

    /// Removes the client from the heartbeats of this process.
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
    /// Reports the splits that the client has seen of a removed task. The task's splits wait until every
    /// client has reported, or a deadline passes.
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
            // The ranges are too many to be named, so all leases between the first and the last count as
            // seen.
            let count = last.last().saturating_sub(first.first).saturating_add(1);
            *partial = vec![LeaseRange {
                first: first.first,
                count,
            }];
        }
        self.report(WireRequest::Acknowledge { client, task, seen }).await
    }

    /// Reports that every element of these splits has arrived and that the client's user is done with them.
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

    /// Reports that every element of these splits has arrived, and that some elements have not yet been
    /// handed over.
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

    /// Returns when the dispatcher may have released this client, unless it confirms the client earlier
    /// (C4.4). `None` while the client timeout is unknown or no heartbeat has been confirmed.
    pub fn lease_ends(&self) -> Option<tokio::time::Instant> {
        self.session.leases_end()
    }

    /// Reports that a task's end and every element before the end have arrived.
    ///
    /// # Errors
    /// The dispatcher does not answer, or does not know this client.
    pub async fn task_drained(&self, task: TaskId) -> Result<(), Error> {
        let client = self.client;
        self.report(WireRequest::TaskDrained { client, task }).await
    }

    /// Reports the first round in which this consumer of a coordinated read can read a late task. The user
    /// has not begun this round, and does not begin it before the task's first round is known.
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

    /// Reports that this client has lost its link to the worker at this address, so that the dispatcher
    /// checks whether the worker lives.
    ///
    /// # Errors
    /// The dispatcher does not answer, or does not know this client.
    pub async fn suspect_worker(&self, address: &str) -> Result<(), Error> {
        let client = self.client;
        let address = address.to_owned();
        self.report(WireRequest::SuspectWorker(client, address)).await
    }

    /// Reports with the next heartbeat the number of elements that this client's user has taken, and the
    /// user's own pace.
    pub fn note_pace(&self, pace: Pace) {
        if self.is_open() {
            self.session.paces().lock().note_client(self.client, pace);
        }
    }

    /// Reports this client's links with workers with the next heartbeat.
    pub fn note_links(&self, links: ClientLinks) {
        if self.is_open() {
            self.session.paces().lock().note_client_links(self.client, links);
        }
    }

    /// Returns false once the client was released or its handle was dropped.
    fn is_open(&self) -> bool {
        self.session.clients().lock().contains(&self.client)
    }

    async fn report(&self, request: WireRequest) -> Result<(), Error> {
        let releases = matches!(request, WireRequest::Release { .. });
        let deadline = self.session.config().request_deadline;
        match self.session.call(request, deadline).await {
            Ok(WireReply::Done) => Ok(()),
            Ok(_) => Err(unexpected()),
            // The client is already gone, as the release intended.
            Err(error) if releases && error.code == Code::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}
