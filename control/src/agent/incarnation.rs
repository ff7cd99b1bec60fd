//! One registration after the other: each from its first welcome to the end of its lease (C7.1, C7.4).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::feed::FeedControl;
use super::running::{AgentEvent, AgentShared};
use crate::dispatcher::WorkerPush;
use crate::dispatcher::{StopReason, TaskDef};
use crate::error::{Code, Error};
use crate::id::{BootId, TaskId, WorkerId};
use crate::rpc::session::{Session, SessionEvent};
use crate::rpc::wire::{WirePush, WireRegistration, WireReply, WireRequest, unexpected};

/// Session events that wait for the agent.
const EVENTS_MAX: usize = 1024;

pub(super) type Registered = watch::Sender<Option<Result<WorkerId, Error>>>;

/// Why an incarnation ended.
enum End {
    Lapsed,
    Restarted,
    Refused(Error),
    /// Nobody listens to the agent any more.
    Unwanted,
}

/// Lives until the dispatcher refuses the worker or nobody wants to know.
pub(super) async fn live(shared: Arc<AgentShared>, events: mpsc::Sender<AgentEvent>, registered: Registered) {
    loop {
        let end = Incarnation::begin(&shared, &events, &registered).run().await;
        shared.end_incarnation();
        let event = match end {
            End::Lapsed => AgentEvent::LeaseLapsed,
            End::Restarted => AgentEvent::DispatcherRestarted,
            End::Refused(error) => {
                registered.send_replace(Some(Err(error.clone())));
                // Fails when nobody listens: the error is in `registered` as well.
                events.send(AgentEvent::Failed(error)).await.ok();
                return;
            }
            End::Unwanted => return,
        };
        if events.send(event).await.is_err() {
            return;
        }
    }
}

struct Incarnation<'a> {
    shared: &'a Arc<AgentShared>,
    events: &'a mpsc::Sender<AgentEvent>,
    registered: &'a Registered,
    session: Arc<Session>,
    heard: mpsc::Receiver<SessionEvent>,
    boot: Option<BootId>,
    /// The lease runs from the first registration.
    begun: Option<Instant>,
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
            boot: None,
            begun: None,
        }
    }

    async fn run(mut self) -> End {
        loop {
            let lapse = self.lapse();
            let event = tokio::select! {
                event = self.heard.recv() => event,
                () = sleep_until(lapse) => {
                    // Signs of life may have been answered while we slept.
                    if self.lapse().is_some_and(|lapse| Instant::now() >= lapse) {
                        return End::Lapsed;
                    }
                    continue;
                }
                () = self.events.closed() => return End::Unwanted,
            };
            let ended = match event {
                Some(SessionEvent::Up(boot)) => self.register(boot).await,
                Some(SessionEvent::Push(WirePush::Worker(push))) => self.obey(push.into()).await,
                Some(SessionEvent::Push(WirePush::Beat(_) | WirePush::Client(..))) => Ok(()),
                Some(SessionEvent::Down(reason)) => {
                    tracing::debug!(reason, "the dispatcher's connection was lost");
                    Ok(())
                }
                // The session ends by itself only when trying on is pointless.
                None => Err(match self.session.connected(std::time::Duration::ZERO).await {
                    Ok(_) => End::Lapsed,
                    Err(error) => End::Refused(error),
                }),
            };
            if let Err(end) = ended {
                return end;
            }
        }
    }

    fn lapse(&self) -> Option<Instant> {
        self.begun?;
        self.session.heard().map(|heard| heard + self.shared.config.lease)
    }

    async fn register(&mut self, boot: BootId) -> Result<(), End> {
        if self.boot.replace(boot).is_some_and(|known| known != boot) {
            return Err(End::Restarted);
        }
        if self.shared.leaving.load(Ordering::Relaxed) {
            return Ok(());
        }
        let registration = WireRegistration::from(&self.shared.config.registration);
        match self.call(WireRequest::RegisterWorker(registration)).await? {
            Ok(WireReply::Worker(id)) => {
                self.begun.get_or_insert_with(Instant::now);
                self.registered.send_replace(Some(Ok(id)));
                Ok(())
            }
            Ok(_) => Err(End::Refused(unexpected())),
            Err(error) if error.code == Code::Aborted => Err(End::Lapsed),
            Err(error) if matches!(error.code, Code::Unavailable | Code::DeadlineExceeded) => Ok(()),
            Err(error) => Err(End::Refused(error)),
        }
    }

    async fn obey(&mut self, push: WorkerPush) -> Result<(), End> {
        match push {
            WorkerPush::Assigned { tasks } => {
                let wanted: BTreeSet<TaskId> = tasks.iter().copied().collect();
                let mine: Vec<TaskId> = self.shared.tasks.lock().keys().copied().collect();
                for task in mine {
                    if !wanted.contains(&task) {
                        self.stop(task, StopReason::Unknown).await?;
                    }
                }
                for task in tasks {
                    self.start(task).await?;
                }
                Ok(())
            }
            WorkerPush::Start { task } => self.start(task).await,
            WorkerPush::Stop { task, reason } => self.stop(task, reason).await,
        }
    }

    async fn start(&mut self, task: TaskId) -> Result<(), End> {
        if self.shared.tasks.lock().contains_key(&task) {
            return Ok(());
        }
        let def: TaskDef = match self.call(WireRequest::DescribeTask { task }).await? {
            Ok(WireReply::Task(def)) => def.into(),
            Ok(_) => return Err(End::Refused(unexpected())),
            // It ended meanwhile, or the next assignment names it again.
            Err(error) => {
                tracing::debug!(%task, %error, "a task was not described");
                return Ok(());
            }
        };
        self.shared
            .tasks
            .lock()
            .insert(task, FeedControl::new(def.policy));
        self.tell(AgentEvent::StartTask(def)).await
    }

    async fn stop(&mut self, task: TaskId, reason: StopReason) -> Result<(), End> {
        let control = self.shared.tasks.lock().remove(&task);
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

    /// Asks the dispatcher, for no longer than the lease lasts.
    async fn call(&self, request: WireRequest) -> Result<Result<WireReply, Error>, End> {
        let deadline = match self.lapse() {
            Some(lapse) => lapse.saturating_duration_since(Instant::now()),
            None => self.session.config().request_deadline,
        };
        tokio::select! {
            result = self.session.call(request, deadline) => Ok(result),
            () = self.events.closed() => Err(End::Unwanted),
        }
    }
}

async fn sleep_until(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}
