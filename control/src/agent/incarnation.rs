//! The incarnations of a worker: each lasts from its first welcome to the end of its lease (C7.1, C7.4).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::event::AgentEvent;
use super::shared::AgentShared;
use crate::dispatcher::WorkerPush;
use crate::dispatcher::{StopReason, TaskDef};
use crate::error::{Code, Error};
use crate::id::{TaskId, WorkerId};
use crate::rpc::session::{Session, SessionEvent};
use crate::rpc::wire::{WirePush, WireRegistration, WireReply, WireRequest, unexpected};

/// Maximum number of session events that wait for the agent.
const EVENTS_MAX: usize = 1024;

pub(super) type Registered = watch::Sender<Option<Result<WorkerId, Error>>>;

/// The shortest and the longest pause between incarnations. The pause doubles each time. Two workers at one
/// address end each other's incarnations, and the pause slows them down.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Maximum number of tasks whose definitions are requested at the same time. Without concurrency, each task
/// of a new worker would take a round trip.
const DESCRIPTIONS_MAX: usize = 16;
/// The pause between two attempts to receive an answer while the lease lasts.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// The reason for which an incarnation ended.
enum End {
    Lapsed,
    Restarted,
    /// The dispatcher has no room for another worker now.
    NoRoom(Error),
    Refused(Error),
    /// The service was shut down.
    ShutDown {
        by: String,
    },
    /// The owner of the agent is gone.
    Unwanted,
}

/// Runs incarnations until the dispatcher refuses the worker or the agent's owner is gone.
pub(super) async fn live(shared: Arc<AgentShared>, events: mpsc::Sender<AgentEvent>, registered: Registered) {
    let mut pause = PAUSE_MIN;
    loop {
        let begun = Instant::now();
        let incarnation = Incarnation::begin(&shared, &events, &registered);
        let session = Arc::clone(&incarnation.session);
        let end = incarnation.run().await;
        let lease = lease(&shared, &session);
        shared.end_incarnation();
        let event = match end {
            End::Lapsed => Some(AgentEvent::LeaseLapsed),
            End::Restarted => Some(AgentEvent::DispatcherRestarted),
            End::NoRoom(error) => {
                tracing::warn!(%error, "the dispatcher does not take this worker now: trying again");
                *shared.refusal.lock() = Some(error);
                None
            }
            End::Refused(error) => {
                registered.send_replace(Some(Err(error.clone())));
                // The send fails when the owner is gone: the error is in `registered` as well.
                events.send(AgentEvent::Failed(error)).await.ok();
                return;
            }
            End::ShutDown { by } => {
                // The send fails when the owner is gone.
                events.send(AgentEvent::ShutDown { by }).await.ok();
                return;
            }
            End::Unwanted => return,
        };
        if let Some(event) = event
            && events.send(event).await.is_err()
        {
            return;
        }
        // A worker that is about to leave does not register again.
        if shared.is_draining() {
            return;
        }
        // An incarnation that outlasted the longest pause of any other worker shows that no other worker
        // competes for the address.
        if begun.elapsed() > lease + PAUSE_MAX {
            pause = PAUSE_MIN;
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = events.closed() => return,
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Returns the worker's own lease. The lease is longer than the dispatcher waits for a silent worker, which
/// is three times its liveness limit (C7.4).
fn lease(shared: &AgentShared, session: &Session) -> Duration {
    shared.config.lease.max(session.liveness() * 4)
}

struct Incarnation<'a> {
    shared: &'a Arc<AgentShared>,
    events: &'a mpsc::Sender<AgentEvent>,
    registered: &'a Registered,
    session: Arc<Session>,
    heard: mpsc::Receiver<SessionEvent>,
    /// The time of the first registration, from which the lease runs.
    begun: Option<Instant>,
    /// The definitions of starting tasks. A definition for a task that is not in `starting` has arrived too
    /// late.
    descriptions: JoinSet<(TaskId, Result<Option<TaskDef>, End>)>,
    starting: BTreeMap<TaskId, AbortHandle>,
    permits: Arc<Semaphore>,
}

/// The requests to the dispatcher on behalf of an incarnation.
#[derive(Clone)]
struct Questions {
    session: Arc<Session>,
    events: mpsc::Sender<AgentEvent>,
    lease: Option<Duration>,
}

impl<'a> Incarnation<'a> {
    fn begin(
        shared: &'a Arc<AgentShared>,
        events: &'a mpsc::Sender<AgentEvent>,
        registered: &'a Registered,
    ) -> Incarnation<'a> {
        let (sender, heard) = mpsc::channel(EVENTS_MAX);
        let session = Session::start(
            shared.endpoint.clone(),
            shared.dispatcher.clone(),
            shared.config.session.clone(),
            sender,
        );
        let session = Arc::new(session);
        *shared.session.lock() = Some(Arc::clone(&session));
        Incarnation {
            shared,
            events,
            registered,
            session,
            heard,
            begun: None,
            descriptions: JoinSet::new(),
            starting: BTreeMap::new(),
            permits: Arc::new(Semaphore::new(DESCRIPTIONS_MAX)),
        }
    }

    async fn run(mut self) -> End {
        loop {
            let lapse = self.lapse();
            let event = tokio::select! {
                event = self.heard.recv() => event,
                Some(described) = self.descriptions.join_next(), if !self.descriptions.is_empty() => {
                    match self.begin_task(described).await {
                        Ok(()) => continue,
                        Err(end) => return end,
                    }
                }
                () = sleep_until(lapse) => {
                    // Heartbeats may have been answered during the sleep.
                    if self.lapse().is_some_and(|lapse| Instant::now() >= lapse) {
                        return End::Lapsed;
                    }
                    continue;
                }
                () = self.events.closed() => return End::Unwanted,
            };
            let ended = match event {
                Some(SessionEvent::Up) => self.register().await,
                // The incarnation ends when the dispatcher has lost its state (C1.8).
                Some(SessionEvent::Restarted) => Err(End::Restarted),
                Some(SessionEvent::Push(WirePush::Worker(push))) => self.obey(push.into()).await,
                Some(SessionEvent::Push(WirePush::Beat(_) | WirePush::Client(..))) => Ok(()),
                Some(SessionEvent::Down(reason)) => {
                    tracing::debug!(reason, "the dispatcher's connection was lost");
                    Ok(())
                }
                // The session ends by itself only if no further attempt can succeed.
                None => Err(match (self.session.shut_down_by(), self.session.failure()) {
                    (Some(by), _) => End::ShutDown { by },
                    (None, Some(error)) => End::Refused(error),
                    (None, None) => End::Lapsed,
                }),
            };
            if let Err(end) = ended {
                return end;
            }
        }
    }

    fn lapse(&self) -> Option<Instant> {
        self.questions().lapse()
    }

    fn questions(&self) -> Questions {
        Questions {
            session: Arc::clone(&self.session),
            events: self.events.clone(),
            lease: self.begun.map(|_| lease(self.shared, &self.session)),
        }
    }

    async fn register(&mut self) -> Result<(), End> {
        if self.shared.leaving.load(Ordering::Relaxed) {
            return Ok(());
        }
        let registration = WireRegistration::from(&self.shared.config.registration);
        let registered = self
            .questions()
            .ask(WireRequest::RegisterWorker(registration))
            .await?;
        match registered {
            Ok(WireReply::Worker(id)) => {
                self.begun.get_or_insert_with(Instant::now);
                self.registered.send_replace(Some(Ok(id)));
                Ok(())
            }
            Ok(_) => Err(End::Refused(unexpected())),
            Err(error) if error.code == Code::Aborted => Err(End::Lapsed),
            Err(error) if error.code == Code::ResourceExhausted => Err(End::NoRoom(error)),
            Err(error) => Err(End::Refused(error)),
        }
    }

    async fn obey(&mut self, push: WorkerPush) -> Result<(), End> {
        match push {
            WorkerPush::Assigned { tasks } => {
                let wanted: BTreeSet<TaskId> = tasks.iter().copied().collect();
                let starting = self.starting.keys().copied();
                let known = self.shared.task_ids().into_iter().chain(starting);
                for task in known.collect::<Vec<_>>() {
                    if !wanted.contains(&task) {
                        self.stop(task, StopReason::Unknown).await?;
                    }
                }
                for task in tasks {
                    self.start(task);
                }
                Ok(())
            }
            WorkerPush::Start { task } => {
                self.start(task);
                Ok(())
            }
            WorkerPush::Stop { task, reason } => self.stop(task, reason).await,
            WorkerPush::Release { client, tasks } => {
                self.tell(AgentEvent::ReleaseClient { client, tasks }).await
            }
            WorkerPush::ShutDown { by } => self.tell(AgentEvent::ShutDown { by }).await,
        }
    }

    /// Begins to request a task's definition. The agent obeys pushes meanwhile.
    fn start(&mut self, task: TaskId) {
        if self.shared.has_task(task) || self.starting.contains_key(&task) {
            return;
        }
        let (questions, permits) = (self.questions(), Arc::clone(&self.permits));
        let asking = self.descriptions.spawn(async move {
            // The semaphore is never closed, so the permit is always granted.
            let _permit = permits.acquire().await;
            (task, questions.describe(task).await)
        });
        self.starting.insert(task, asking);
    }

    async fn begin_task(
        &mut self,
        described: Result<(TaskId, Result<Option<TaskDef>, End>), tokio::task::JoinError>,
    ) -> Result<(), End> {
        let (task, answer) = match described {
            Ok(described) => described,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The task was stopped before its definition arrived.
            Err(_) => return Ok(()),
        };
        if self.starting.remove(&task).is_none() {
            return Ok(());
        }
        match answer? {
            Some(def) => {
                self.shared.add_task(task, def.policy);
                self.tell(AgentEvent::StartTask(def)).await
            }
            None => Ok(()),
        }
    }

    async fn stop(&mut self, task: TaskId, reason: StopReason) -> Result<(), End> {
        if let Some(asking) = self.starting.remove(&task) {
            asking.abort();
            return Ok(());
        }
        let control = self.shared.take_task(task);
        match control {
            Some(control) => {
                control.cancel();
                self.tell(AgentEvent::StopTask { task, reason }).await
            }
            None => Ok(()),
        }
    }

    async fn tell(&self, event: AgentEvent) -> Result<(), End> {
        self.events.send(event).await.map_err(|_| End::Unwanted)
    }
}

impl Questions {
    fn lapse(&self) -> Option<Instant> {
        Some(self.session.heard()? + self.lease?)
    }

    /// Requests the definition of a task. Returns `None` if the task has ended, or cannot start and is
    /// reported as failed.
    async fn describe(&self, task: TaskId) -> Result<Option<TaskDef>, End> {
        match self.ask(WireRequest::DescribeTask { task }).await? {
            Ok(WireReply::Task(def)) => Ok(Some(def.into())),
            Ok(_) => Err(End::Refused(unexpected())),
            Err(error) if matches!(error.code, Code::Aborted | Code::NotFound) => {
                tracing::debug!(%task, %error, "a task ended before it began");
                Ok(None)
            }
            Err(error) => {
                tracing::warn!(%task, %error, "a task cannot begin");
                let message = format!("the worker did not receive the task's definition: {error}");
                let failed = self
                    .ask(WireRequest::FailTask {
                        task,
                        message,
                        element: None,
                    })
                    .await?;
                if let Err(error) = failed {
                    tracing::debug!(%task, %error, "the task ended before its failure");
                }
                Ok(None)
            }
        }
    }

    /// Repeats a request until the dispatcher answers or the lease has lapsed. Answered heartbeats extend
    /// the lease meanwhile.
    async fn ask(&self, request: WireRequest) -> Result<Result<WireReply, Error>, End> {
        loop {
            let deadline = match self.lapse() {
                Some(lapse) => lapse.saturating_duration_since(Instant::now()),
                None => self.session.config().request_deadline,
            };
            let result = tokio::select! {
                result = self.session.call(request.clone(), deadline) => result,
                () = self.events.closed() => return Err(End::Unwanted),
            };
            let silent = |error: &Error| matches!(error.code, Code::Unavailable | Code::DeadlineExceeded);
            if !result.as_ref().is_err_and(silent) {
                return Ok(result);
            }
            if self.lapse().is_some_and(|lapse| Instant::now() >= lapse) {
                return Err(End::Lapsed);
            }
            if let Some(error) = self.session.failure() {
                return Err(End::Refused(error));
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
}

async fn sleep_until(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}
