//! The agent: its incarnations, one after the other, and what its worker does through it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use millstream_link::{Endpoint, HostPort};
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
use crate::error::Error;
use crate::id::{ClientId, TaskId, WorkerId};
use crate::links::LinkCounts;
use crate::pace::Pace;
use crate::rpc::wire::{WireReply, WireRequest, unexpected};
use crate::split::LeaseRange;

/// The time for which a leaving worker waits for the dispatcher to hear of it. A living dispatcher answers in
/// milliseconds; a dead one notices the silence later.
const GOODBYE: Duration = Duration::from_secs(1);

/// Ranges of leases in one message: at 19 bytes each they fit a small request.
const MISSED_MAX: usize = 1024;

/// The events of a worker, in order.
#[derive(Debug)]
pub struct AgentEvents {
    events: mpsc::Receiver<AgentEvent>,
}

impl AgentEvents {
    /// The next event; `None` once the agent is dropped. Cancel-safe.
    pub async fn next(&mut self) -> Option<AgentEvent> {
        self.events.recv().await
    }
}

/// Keeps a worker registered. Dropping it ends the connection without a goodbye; [`leave`](Agent::leave) says
/// goodbye.
#[derive(Debug)]
pub struct Agent {
    shared: Arc<AgentShared>,
    driver: JoinHandle<()>,
    registered: watch::Receiver<Option<Result<WorkerId, Error>>>,
}

impl Agent {
    /// Registers a worker, within a tokio runtime, waiting for a dispatcher that is not there yet.
    ///
    /// # Errors
    /// The dispatcher was not reached before the connect deadline (the message names its address), or refuses
    /// the worker.
    pub async fn start(
        endpoint: Endpoint,
        dispatcher: HostPort,
        config: AgentConfig,
    ) -> Result<(Agent, AgentEvents), Error> {
        config.registration.check()?;
        let deadline = config.session.connect_deadline;
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
                let why = why.map_or_else(|| "it did not answer".to_owned(), |error| error.message);
                Err(Error::unavailable(format!(
                    "this worker could not register at {address} within {seconds} s: {why}"
                )))
            }
        }
    }

    /// The current incarnation.
    pub fn worker_id(&self) -> Option<WorkerId> {
        let registered = self.registered.borrow();
        registered
            .as_ref()
            .and_then(|outcome| outcome.as_ref().ok())
            .copied()
    }

    /// Reports that a task has produced its last element, and whether every element is known to have reached
    /// a client. A second call may report the latter.
    ///
    /// # Errors
    /// The dispatcher does not answer, also to splits that are given back, or has given the task away.
    pub async fn finish_task(&self, task: TaskId, delivered: bool) -> Result<(), Error> {
        let control = self.shared.control(task);
        let exhausted = control.as_ref().is_none_or(FeedControl::is_exhausted);
        let cut_short = control.as_ref().is_some_and(FeedControl::is_cut_short);
        if let Some(control) = control {
            // C5.5: what it still holds afterwards counts as read.
            let deadline = self.shared.config.split_deadline;
            let returned = tokio::time::timeout(deadline, control.returned()).await;
            returned
                .map_err(|_| Error::unavailable("splits that nobody has begun are not given back yet"))?;
        }
        let request = WireRequest::FinishTask {
            task,
            delivered,
            exhausted,
            cut_short,
        };
        self.report(request).await
    }

    /// Reports the splits of which a dead client held unfinished elements. Also reports whether the client is
    /// served no more, so that the list is complete (C6.7).
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
        // The last message says that these are all.
        while ranges.len() > MISSED_MAX {
            let rest = ranges.split_off(MISSED_MAX);
            let leases = std::mem::replace(&mut ranges, rest);
            self.report(WireRequest::SplitsMissed(task, client, leases, false))
                .await?;
        }
        self.report(WireRequest::SplitsMissed(task, client, ranges, is_released))
            .await
    }

    /// Says of which splits that ended a client has elements in hand, as other clients have (C5.8).
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

    /// Says that a task cannot go on, in words for its user.
    ///
    /// # Errors
    /// The dispatcher does not answer, or has given the task away.
    pub async fn fail_task(&self, task: TaskId, message: &str) -> Result<(), Error> {
        let message = message[..message.floor_char_boundary(crate::dispatcher::ERROR_BYTES_MAX)].to_owned();
        self.report(WireRequest::FailTask { task, message }).await
    }

    /// Says with the next heartbeat how far a task has come, and how fast it goes.
    pub fn note_pace(&self, task: TaskId, pace: Pace) {
        let session = self.shared.session.lock().clone();
        // Without one, or with another one since, the task is gone.
        if let Some(session) = session.filter(|_| self.shared.tasks.lock().controls.contains_key(&task)) {
            session.paces().lock().note_task(task, pace);
        }
    }

    /// Says with the next heartbeat what holds a task up: the name of a stage, or what else it waits for.
    pub fn note_bottleneck(&self, task: TaskId, name: &str) {
        let session = self.shared.session.lock().clone();
        if let Some(session) = session.filter(|_| self.shared.tasks.lock().controls.contains_key(&task)) {
            session.paces().lock().note_bottleneck(task, name);
        }
    }

    /// Says with the next heartbeat how readers are linked with this worker.
    pub fn note_links(&self, links: LinkCounts) {
        if let Some(session) = &*self.shared.session.lock() {
            session.paces().lock().note_links(links);
        }
    }

    /// The splits of a task under DYNAMIC, for its producer's thread.
    ///
    /// # Errors
    /// The worker does not have the task.
    pub fn splits(&self, task: TaskId) -> Result<SplitFeed, Error> {
        let gone = || Error::aborted(format!("task {task} is not this worker's, or no longer"));
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

    /// Announces that the worker leaves: it is given no further tasks, and its feeds end as soon as what they
    /// have given is read (C10.1, C10.2). It stays registered for as long as its lease holds, and does not
    /// register again.
    ///
    /// # Errors
    /// The dispatcher cannot be reached now, or has not heard of it within its limit of silence: nothing has
    /// changed then.
    pub async fn drain(&self) -> Result<(), Error> {
        let session = self.shared.session.lock().clone();
        let session = session.ok_or_else(|| Error::unavailable("this worker is not registered"))?;
        session
            .call_now(WireRequest::DrainWorker, session.liveness())
            .await?;
        // Only now: a worker that ends before the dispatcher knows why would be given a task again.
        let mut tasks = self.shared.tasks.lock();
        tasks.is_draining = true;
        tasks.controls.values().for_each(FeedControl::drain);
        Ok(())
    }

    /// Waits until what tasks have given back unstarted has arrived at the dispatcher. Cancel-safe.
    pub async fn returned(&self) {
        self.shared.returning.over().await;
    }

    /// Takes note of the splits of a task that have been produced, where it has the cross-trainer cache
    /// (C13.3).
    ///
    /// # Errors
    /// The worker is not registered.
    pub fn produced(&self, task: TaskId) -> Result<ProducedSplits, Error> {
        let session = self.shared.session.lock().clone();
        let session = session.ok_or_else(|| Error::aborted("this worker is not registered, or no longer"))?;
        let deadline = session.config().request_deadline;
        Ok(ProducedSplits::new(
            &session,
            self.shared.runtime.clone(),
            task,
            deadline,
        ))
    }

    /// Says goodbye: the tasks go to others at once.
    ///
    /// # Errors
    /// The dispatcher cannot be reached now, or does not answer within a second; it will notice the silence.
    pub async fn leave(self) -> Result<(), Error> {
        let session = self.shared.session.lock().clone();
        // The driver lives on until the answer is here: the connection ends with it.
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
