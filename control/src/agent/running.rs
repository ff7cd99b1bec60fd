//! The agent: its successive incarnations, and the requests of its worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use millstream_link::{Endpoint, HostPorts};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::AgentConfig;
use super::event::AgentEvent;
use super::feed::{FeedControl, Returns, SplitFeed};
use super::incarnation;
use super::produced::ProducedSplits;
use super::shared::AgentShared;
use crate::dispatcher::{ERROR_BYTES_MAX, FailureReport};
use crate::error::Error;
use crate::id::{ClientId, TaskId, WorkerId};
use crate::links::LinkCounts;
use crate::load::WorkerLoad;
use crate::pace::Pace;
use crate::rpc::wire::{WireReply, WireRequest, unexpected};
use crate::split::LeaseRange;
use crate::stage::StagePace;

/// The time for which a leaving worker waits for the dispatcher's answer. A living dispatcher answers in
/// milliseconds; a restarted dispatcher notices the silence later.
const GOODBYE: Duration = Duration::from_secs(1);

/// Maximum number of ranges of leases in one message: at 19 bytes each they fit in a small request.
const MISSED_MAX: usize = 1024;

/// The events of a worker, in order.
#[derive(Debug)]
pub struct AgentEvents {
    events: mpsc::Receiver<AgentEvent>,
}

impl AgentEvents {
    /// Returns the next event; `None` once the agent is dropped. Cancel-safe.
    pub async fn next(&mut self) -> Option<AgentEvent> {
        self.events.recv().await
    }
}

/// The agent of a worker, which keeps the worker registered. Dropping the value ends the connection without
/// a goodbye message; [`leave`](Agent::leave) sends one.
#[derive(Debug)]
pub struct Agent {
    shared: Arc<AgentShared>,
    driver: JoinHandle<()>,
    registered: watch::Receiver<Option<Result<WorkerId, Error>>>,
}

impl Agent {
    /// Registers a worker within a tokio runtime, and waits for a dispatcher that has not started yet.
    ///
    /// # Errors
    /// The dispatcher was not reached before the connect deadline (the message names its address), or
    /// refuses the worker.
    pub async fn start(
        endpoint: Endpoint,
        dispatcher: impl Into<HostPorts>,
        config: AgentConfig,
    ) -> Result<(Agent, AgentEvents), Error> {
        config.registration.check()?;
        let deadline = config.session.connect_deadline;
        let dispatcher = dispatcher.into();
        let address = dispatcher.clone();
        let (events, received) = mpsc::channel(config.events_max.max(1));
        let (register, mut registered) = watch::channel(None);
        let shared = Arc::new(AgentShared {
            endpoint,
            dispatcher,
            config,
            runtime: Handle::current(),
            session: Mutex::new(None),
            tasks: Mutex::default(),
            returning: Returns::none(),
            leaving: AtomicBool::new(false),
            refusal: Mutex::default(),
        });
        let driver = tokio::spawn(incarnation::live(Arc::clone(&shared), events, register));
        let first = async { registered.wait_for(Option::is_some).await.ok()?.clone() };
        let outcome = tokio::time::timeout(deadline, first).await.unwrap_or(None);
        let agent = Agent {
            shared,
            driver,
            registered,
        };
        match outcome {
            Some(Ok(_)) => Ok((agent, AgentEvents { events: received })),
            Some(Err(error)) => Err(error),
            None => {
                let seconds = deadline.as_secs_f64();
                let session = agent.shared.session.lock().clone();
                let refusal = agent.shared.refusal.lock().clone();
                let why = match (refusal, session) {
                    (Some(refusal), _) => Some(refusal),
                    (None, Some(session)) => session.connected(Duration::ZERO).await.err(),
                    (None, None) => None,
                };
                let why = why.map_or_else(
                    || "the dispatcher did not answer".to_owned(),
                    |error| error.message,
                );
                Err(Error::unavailable(format!(
                    "this worker could not register at {address} within {seconds} s: {why}"
                )))
            }
        }
    }

    /// Returns the id of the current incarnation.
    pub fn worker_id(&self) -> Option<WorkerId> {
        let registered = self.registered.borrow();
        registered
            .as_ref()
            .and_then(|outcome| outcome.as_ref().ok())
            .copied()
    }

    /// Reports that a task has produced its last element. `delivered` states whether every element is known
    /// to have reached a client; a second call may report the delivery later.
    ///
    /// # Errors
    /// The dispatcher does not answer the report or the return of splits, or has given the task away.
    pub async fn finish_task(&self, task: TaskId, delivered: bool) -> Result<(), Error> {
        let control = self.shared.control(task);
        let exhausted = control.as_ref().is_none_or(FeedControl::is_exhausted);
        let cut_short = control.as_ref().is_some_and(FeedControl::is_cut_short);
        if let Some(control) = control {
            // Splits that the task still holds after the report count as read (C5.5).
            let deadline = self.shared.config.split_deadline;
            let returned = tokio::time::timeout(deadline, control.returned()).await;
            returned.map_err(|_| Error::unavailable("the unstarted splits are not returned yet"))?;
        }
        let request = WireRequest::FinishTask {
            task,
            delivered,
            exhausted,
            cut_short,
        };
        self.report(request).await
    }

    /// Reports the splits of which a client that is gone held unfinished elements. Also reports whether the
    /// worker has stopped serving the client, so that the list is complete (C6.7).
    ///
    /// # Errors
    /// The dispatcher does not answer, or has given the task away.
    pub async fn splits_missed(
        &self,
        task: TaskId,
        client: ClientId,
        leases: &[u64],
        is_released: bool,
    ) -> Result<(), Error> {
        let mut ranges = LeaseRange::collect(leases.iter().copied());
        // Only the last message states that the list is complete.
        while ranges.len() > MISSED_MAX {
            let rest = ranges.split_off(MISSED_MAX);
            let leases = std::mem::replace(&mut ranges, rest);
            self.report(WireRequest::SplitsMissed(task, client, leases, false))
                .await?;
        }
        self.report(WireRequest::SplitsMissed(task, client, ranges, is_released))
            .await
    }

    /// Reports splits that are at their end while this client and other clients hold elements of them
    /// (C5.8).
    ///
    /// # Errors
    /// The dispatcher does not answer, or has given the task away.
    pub async fn splits_shared(&self, task: TaskId, client: ClientId, leases: &[u64]) -> Result<(), Error> {
        for ranges in LeaseRange::collect(leases.iter().copied()).chunks(MISSED_MAX) {
            self.report(WireRequest::SplitsShared(task, client, ranges.to_vec()))
                .await?;
        }
        Ok(())
    }

    /// Reports that a task cannot continue.
    ///
    /// # Errors
    /// The dispatcher does not answer, or has given the task away.
    pub async fn fail_task(&self, task: TaskId, report: &FailureReport) -> Result<(), Error> {
        let message = &report.message;
        let failed = WireRequest::FailTask {
            task,
            message: message[..message.floor_char_boundary(ERROR_BYTES_MAX)].to_owned(),
            element: report.element,
        };
        self.report(failed).await
    }

    /// Reports with the next heartbeat the number of elements that a task has produced, and its pace.
    pub fn note_pace(&self, task: TaskId, pace: Pace) {
        let session = self.shared.session.lock().clone();
        // Without a session, or with a session of a later incarnation, the task is gone.
        if let Some(session) = session.filter(|_| self.shared.tasks.lock().controls.contains_key(&task)) {
            session.paces().lock().note_task(task, pace);
        }
    }

    /// Reports with the next heartbeat the bottleneck of a task: the name of a stage, or the thing that it
    /// waits for.
    pub fn note_bottleneck(&self, task: TaskId, name: &str) {
        let session = self.shared.session.lock().clone();
        if let Some(session) = session.filter(|_| self.shared.tasks.lock().controls.contains_key(&task)) {
            session.paces().lock().note_bottleneck(task, name);
        }
    }

    /// Reports with a later heartbeat the recent work of the stages of a task.
    pub fn note_stages(&self, task: TaskId, stages: Vec<StagePace>) {
        let session = self.shared.session.lock().clone();
        if let Some(session) = session.filter(|_| self.shared.tasks.lock().controls.contains_key(&task)) {
            session.paces().lock().note_stages(task, stages);
        }
    }

    /// Reports with the next heartbeat the load of this worker.
    pub fn note_load(&self, load: WorkerLoad) {
        if let Some(session) = &*self.shared.session.lock() {
            session.paces().lock().note_load(load);
        }
    }

    /// Reports with the next heartbeat the kinds of this worker's links with readers.
    pub fn note_links(&self, links: LinkCounts) {
        if let Some(session) = &*self.shared.session.lock() {
            session.paces().lock().note_links(links);
        }
    }

    /// Returns the feed of a task's splits under DYNAMIC, for the thread of its producer.
    ///
    /// # Errors
    /// The worker does not have the task.
    pub fn splits(&self, task: TaskId) -> Result<SplitFeed, Error> {
        let gone = || Error::aborted(format!("task {task} is not assigned to this worker"));
        let control = self.shared.control(task).ok_or_else(gone)?;
        let session = self.shared.session.lock().clone().ok_or_else(gone)?;
        Ok(SplitFeed::new(
            &session,
            self.shared.runtime.clone(),
            task,
            &self.shared.config,
            control,
        ))
    }

    /// Announces that the worker leaves. The worker gets no further tasks, and its feeds end after the
    /// splits that they have given out (C10.1, C10.2). The worker stays registered for as long as its lease
    /// lasts, and does not register again.
    ///
    /// # Errors
    /// The dispatcher cannot be reached now, or has not answered within its liveness limit. After an error,
    /// the worker does not drain.
    pub async fn drain(&self) -> Result<(), Error> {
        let session = self.shared.session.lock().clone();
        let session = session.ok_or_else(|| Error::unavailable("this worker is not registered"))?;
        session
            .call_now(WireRequest::DrainWorker, session.liveness())
            .await?;
        // The feeds drain only after the answer. If the worker ended its tasks before the dispatcher knew
        // of the draining, the dispatcher would assign new tasks.
        let mut tasks = self.shared.tasks.lock();
        tasks.is_draining = true;
        tasks.controls.values().for_each(FeedControl::drain);
        Ok(())
    }

    /// Waits until the dispatcher has received all returned splits of all tasks. Cancel-safe.
    pub async fn returned(&self) {
        self.shared.returning.over().await;
    }

    /// Returns the reporter of the produced splits of a task with the cross-trainer cache (C13.3).
    ///
    /// # Errors
    /// The worker is not registered.
    pub fn produced(&self, task: TaskId) -> Result<ProducedSplits, Error> {
        let session = self.shared.session.lock().clone();
        let session = session.ok_or_else(|| Error::aborted("this worker is not registered"))?;
        let deadline = session.config().request_deadline;
        Ok(ProducedSplits::new(
            &session,
            self.shared.runtime.clone(),
            task,
            deadline,
        ))
    }

    /// Leaves with a goodbye message, so that the dispatcher gives the tasks to other workers at once.
    ///
    /// # Errors
    /// The dispatcher cannot be reached now, or does not answer within a second; it will notice the
    /// silence.
    pub async fn leave(self) -> Result<(), Error> {
        let session = self.shared.session.lock().clone();
        // The driver continues until the answer has arrived, because the connection ends with the driver.
        self.shared.leaving.store(true, Ordering::Relaxed);
        match session {
            Some(session) => session
                .call_now(WireRequest::LeaveWorker, GOODBYE)
                .await
                .map(|_| ()),
            None => Ok(()),
        }
    }

    async fn report(&self, request: WireRequest) -> Result<(), Error> {
        let session = self.shared.session.lock().clone();
        let session = session.ok_or_else(|| Error::unavailable("this worker is not registered"))?;
        let WireReply::Done = session.call(request, session.config().request_deadline).await? else {
            return Err(unexpected());
        };
        Ok(())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.driver.abort();
        self.shared.end_incarnation();
    }
}
