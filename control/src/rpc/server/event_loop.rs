//! The event loop: the one task that owns the state machine. The loop takes inputs in order, commits their
//! changes as a group, and then carries out the actions (C1.6).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_link::Endpoint;
use quinn::{Connection, VarInt};
use tokio::sync::{mpsc, oneshot, watch};

use super::backlog::Backlog;
use super::clock::Clock;
use super::listings::Listings;
use super::probes::Probes;
use crate::dispatcher::{
    Action, Change, Departure, Dispatcher, Event, Incoming, Moment, Reply, ReplyToken, Request, ServiceEvent,
    Stages, Status,
};
use crate::error::Error;
use crate::id::{ClientId, RequestNumber, SessionId};
use crate::pace::Measures;
use crate::planner::Planner;
use crate::rpc::wire::{CLOSE_SHUT_DOWN, WirePush};
use crate::store::{Store, StoreError};

/// Maximum number of inputs that wait for the loop. While the queue is full, connections wait with their
/// next request.
pub(super) const INPUTS_MAX: usize = 4096;
/// Maximum number of inputs in one group commit.
const GROUP_MAX: usize = 1024;
/// The time after which an idle dispatcher checks that it still owns its store.
const HOLD_LOOK: Duration = Duration::from_secs(1);
/// The time for which a stopping dispatcher waits for the answer of its store. The decisions of an unanswered
/// commit are not known to any process.
const STOP_PATIENCE: Duration = Duration::from_secs(1);
/// The close code for a worker that was given up.
const CLOSE_GIVEN_UP: VarInt = VarInt::from_u32(2);
/// The close code for a peer that does not take its pushes, or that has opened another connection.
const CLOSE_RECONNECT: VarInt = VarInt::from_u32(3);

/// The messages from connections to the loop.
pub(super) enum Input {
    Asked {
        session: SessionId,
        role: millstream_link::Role,
        number: Option<RequestNumber>,
        settled_below: RequestNumber,
        request: Request,
        reply: oneshot::Sender<Result<Reply, Error>>,
    },
    Heartbeat {
        session: SessionId,
        worker: bool,
        clients: Vec<ClientId>,
        measures: Measures,
        sequence: u64,
        /// The channel of the answer. The loop itself answers, because the answer shows that the loop runs
        /// (C1.9).
        answers: mpsc::Sender<WirePush>,
        /// The channel that reports the answer, after which the process's next heartbeat is read.
        taken: oneshot::Sender<()>,
    },
    Connected {
        session: SessionId,
        peer: Peer,
        /// The channel that reports that the loop has noted the process.
        admitted: oneshot::Sender<()>,
    },
    Disconnected {
        session: SessionId,
        connection_id: usize,
        departure: Departure,
    },
    /// A request of this process for the state.
    Observed(oneshot::Sender<Observed>),
}

/// The state of a leading dispatcher at one moment.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The status, which a client's request for the status returns as well.
    pub status: Status,
    /// The reason why nothing new can begin, while the store has no space.
    pub store_full: Option<String>,
    /// The stages of the pipelines of running iterations.
    pub stages: Stages,
    /// The latest events, with the oldest first.
    pub events: Vec<Arc<ServiceEvent>>,
    /// The time of the observation, on the clock of the events.
    pub at: Moment,
}

/// A connected process.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) connection: Connection,
    pub(super) pushes: mpsc::Sender<WirePush>,
}

pub(super) struct EventLoop {
    dispatcher: Dispatcher,
    store: Option<Box<dyn Store>>,
    /// The backlog of unstored decisions, while the store has no space.
    backlog: Option<Backlog>,
    listings: Listings,
    probes: Probes,
    endpoint: Endpoint,
    clock: Clock,
    peers: BTreeMap<SessionId, Peer>,
    waiting: BTreeMap<ReplyToken, oneshot::Sender<Result<Reply, Error>>>,
    next_token: u64,
    /// The answers to heartbeats and hellos, which wait until all earlier changes are stored.
    beats: Vec<(mpsc::Sender<WirePush>, u64, oneshot::Sender<()>)>,
    hellos: Vec<oneshot::Sender<()>>,
    stopped: watch::Receiver<bool>,
}

impl EventLoop {
    pub(super) fn new(
        dispatcher: Dispatcher,
        store: Box<dyn Store>,
        planner: Arc<dyn Planner>,
        endpoint: Endpoint,
        stopped: watch::Receiver<bool>,
    ) -> EventLoop {
        let listings = Listings::new(planner, dispatcher.config().plan_deadline);
        EventLoop {
            dispatcher,
            store: Some(store),
            backlog: None,
            listings,
            probes: Probes::default(),
            endpoint,
            clock: Clock::start(),
            peers: BTreeMap::new(),
            waiting: BTreeMap::new(),
            next_token: 0,
            beats: Vec::new(),
            hellos: Vec::new(),
            stopped,
        }
    }

    /// Runs until it is stopped, or until the store fails. After a failure of the store, the loop closes
    /// the connections of all processes with the reason. If another dispatcher took the store over, the
    /// caller closes them (C17.4). The store is released before the call returns (C17.3).
    pub(super) async fn run(mut self, events: mpsc::Receiver<Input>) -> Result<(), StoreError> {
        let mut result = self.decide(events).await;
        if *self.stopped.borrow() && matches!(result, Err(StoreError::Lost(_))) {
            // A dispatcher that stops needs its store no longer.
            result = Ok(());
        }
        match &result {
            Err(error @ StoreError::Lost(_)) => tracing::warn!(%error, "the dispatcher answers nothing more"),
            Err(error @ (StoreError::Failed(_) | StoreError::Full(_))) => {
                tracing::error!(%error, "the dispatcher stops: its decisions cannot be stored");
                self.endpoint.close("the dispatcher's store failed");
            }
            Ok(()) => {}
        }
        if let Some(mut store) = self.store.take() {
            let releasing = tokio::task::spawn_blocking(move || store.release());
            // A store that is not released is taken over later.
            releasing.await.ok();
        }
        result
    }

    async fn decide(&mut self, mut events: mpsc::Receiver<Input>) -> Result<(), StoreError> {
        let mut stopped = self.stopped.clone();
        // A dispatcher that was loaded from records may have actions that are due at once.
        self.finish_group().await?;
        loop {
            let wake = match &self.backlog {
                // Effects of time would have to be stored, so the backlog has precedence.
                Some(backlog) => Some(backlog.retry_at()),
                None => self
                    .dispatcher
                    .next_timeout()
                    .map(|wake| self.clock.instant(wake)),
            };
            tokio::select! {
                input = events.recv() => match input {
                    Some(input) => {
                        self.clock.look();
                        self.take(input);
                        for _ in 1..GROUP_MAX {
                            let Ok(input) = events.try_recv() else { break };
                            self.take(input);
                        }
                    }
                    None => return Ok(()),
                },
                (iteration, result) = self.listings.next() => {
                    let now = self.clock.look();
                    self.dispatcher.handle(Event::SplitsPlanned { iteration, result }, now);
                }
                (worker, is_closed) = self.probes.next() => {
                    let now = self.clock.look();
                    self.dispatcher.handle(Event::WorkerProbed { worker, is_closed }, now);
                }
                () = sleep_until(wake) => {
                    let now = self.clock.look();
                    // A heartbeat that waits in the queue must not count as silence (C7.6).
                    for _ in 0..INPUTS_MAX {
                        let Ok(input) = events.try_recv() else { break };
                        self.take(input);
                    }
                    if self.backlog.is_none() {
                        self.dispatcher.handle(Event::Woken, now);
                    }
                }
                // An idle dispatcher notices as well that it no longer leads.
                () = tokio::time::sleep(HOLD_LOOK) => {}
                _ = stopped.wait_for(|stop| *stop) => return Ok(()),
            }
            self.store_backlog().await?;
            self.finish_group().await?;
            if let Some(by) = self.dispatcher.closed_by().map(str::to_owned) {
                self.end_service().await;
                self.close(&by);
                return Ok(());
            }
        }
    }

    /// Tells the other dispatchers of the store that the service was shut down (C17.6).
    async fn end_service(&mut self) {
        if let Some(mut store) = self.store.take() {
            let telling = tokio::task::spawn_blocking(move || {
                store.end_service();
                store
            });
            // The loop ends in any case.
            self.store = telling.await.ok();
        }
    }

    /// Closes all connections, because no worker or client is left to wait for (C12.3).
    fn close(&mut self, by: &str) {
        tracing::warn!(by, "the service was shut down");
        for peer in std::mem::take(&mut self.peers).into_values() {
            peer.connection.close(CLOSE_SHUT_DOWN.into(), by.as_bytes());
        }
    }

    fn take(&mut self, input: Input) {
        match &self.backlog {
            None => self.decide_on(input),
            Some(backlog) => match input {
                Input::Asked { request, reply, .. } if !matches!(request, Request::Status) => {
                    // The send fails when the process no longer waits.
                    reply.send(Err(backlog.refusal())).ok();
                }
                input @ (Input::Asked { .. } | Input::Heartbeat { .. }) => {
                    self.decide_on(input);
                    self.settle_unstored();
                }
                input @ (Input::Connected { .. } | Input::Disconnected { .. }) => {
                    self.decide_on(input);
                    self.keep_back();
                }
                input @ Input::Observed(_) => self.decide_on(input),
            },
        }
    }

    /// Carries out the actions of a heartbeat or a status request while the store is full. Heartbeats and
    /// status requests change no record.
    fn settle_unstored(&mut self) {
        let batch = self.dispatcher.take_batch();
        debug_assert!(batch.changes.is_empty());
        for action in batch.actions {
            // Other actions of a heartbeat are repeated with the next heartbeat, and may depend on unstored
            // changes.
            if matches!(action, Action::Reply { .. }) {
                self.perform(action);
            }
        }
    }

    /// Adds the latest decisions to the backlog.
    fn keep_back(&mut self) {
        let batch = self.dispatcher.take_batch();
        if let Some(backlog) = &mut self.backlog {
            backlog.add(batch.changes, batch.actions);
        }
    }

    /// Tries to store the backlog if an attempt is due, and carries out the actions that waited.
    async fn store_backlog(&mut self) -> Result<(), StoreError> {
        let Some(mut backlog) = self
            .backlog
            .take_if(|backlog| backlog.retry_at() <= Instant::now())
        else {
            return Ok(());
        };
        let batch = self.dispatcher.take_batch();
        backlog.add(batch.changes, batch.actions);
        match self.commit(backlog.changes()).await {
            (_, Ok(())) => {
                tracing::warn!("the store has space again: the dispatcher continues");
                for action in backlog.into_actions() {
                    self.perform(action);
                }
                Ok(())
            }
            (_, Err(StoreError::Full(reason))) => {
                backlog.put_off(reason);
                self.backlog = Some(backlog);
                Ok(())
            }
            (_, Err(error @ (StoreError::Failed(_) | StoreError::Lost(_)))) => Err(error),
        }
    }

    /// Tells an observer of this process the state.
    fn show(&self, reply: oneshot::Sender<Observed>) {
        let store_full = self.backlog.as_ref().map(|backlog| backlog.refusal().message);
        let status = self.dispatcher.status();
        // The send fails when the observer no longer waits.
        reply
            .send(Observed {
                status,
                store_full,
                stages: self.dispatcher.stages(),
                events: self.dispatcher.service_events(),
                at: self.clock.now(),
            })
            .ok();
    }

    fn decide_on(&mut self, input: Input) {
        let event = match input {
            Input::Asked {
                session,
                role,
                number,
                settled_below,
                request,
                reply,
            } => {
                let token = ReplyToken(self.next_token);
                self.next_token += 1;
                self.waiting.insert(token, reply);
                Event::Asked(Incoming {
                    token,
                    session,
                    role,
                    number,
                    settled_below,
                    request,
                })
            }
            Input::Heartbeat {
                session,
                worker,
                clients,
                measures,
                sequence,
                answers,
                taken,
            } => {
                self.beats.push((answers, sequence, taken));
                self.measure(session, measures);
                Event::Heartbeat {
                    session,
                    worker,
                    clients,
                }
            }
            Input::Connected {
                session,
                peer,
                admitted,
            } => {
                self.hellos.push(admitted);
                if let Some(old) = self.peers.insert(session, peer) {
                    old.connection
                        .close(CLOSE_RECONNECT, b"this process came back on another connection");
                }
                return;
            }
            Input::Observed(reply) => return self.show(reply),
            Input::Disconnected {
                session,
                connection_id,
                departure,
            } => {
                let current = self.peers.get(&session);
                if current.is_none_or(|peer| peer.connection.stable_id() != connection_id) {
                    return;
                }
                self.peers.remove(&session);
                Event::Disconnected { session, departure }
            }
        };
        let now = self.clock.now();
        self.dispatcher.handle(event, now);
    }

    fn measure(&mut self, session: SessionId, measures: Measures) {
        if !measures.is_empty() {
            let now = self.clock.now();
            self.dispatcher.handle(Event::Measured { session, measures }, now);
        }
    }

    /// Stores the changes of the latest inputs, and then carries out their actions.
    async fn finish_group(&mut self) -> Result<(), StoreError> {
        self.hold_store().await?;
        if self.backlog.is_some() {
            self.keep_back();
        } else if self.dispatcher.has_batch() {
            let actions = self.store_batch().await?;
            for action in actions {
                self.perform(action);
            }
        }
        for admitted in self.hellos.drain(..) {
            // The send fails when the process is already gone.
            admitted.send(()).ok();
        }
        for (answers, sequence, taken) in self.beats.drain(..) {
            // A full queue means that the process does not read its pushes. A process with a full queue
            // receives no answer to its heartbeats either.
            answers.try_send(WirePush::Beat(sequence)).ok();
            // The send fails when the process is gone.
            taken.send(()).ok();
        }
        Ok(())
    }

    /// Waits until this dispatcher surely owns the store, because another dispatcher may lead otherwise
    /// (C17.3). Even an answer without changes could then contradict that dispatcher.
    async fn hold_store(&mut self) -> Result<(), StoreError> {
        if self.store.as_ref().is_none_or(|store| store.is_held()) {
            return Ok(());
        }
        tracing::warn!("the dispatcher answers nothing until its lease is renewed");
        self.commit(Vec::new()).await.1
    }

    async fn store_batch(&mut self) -> Result<Vec<Action>, StoreError> {
        if self.store.as_ref().is_some_and(|store| store.is_volatile()) {
            return Ok(self.dispatcher.take_actions());
        }
        let batch = self.dispatcher.take_batch();
        if batch.changes.is_empty() {
            return Ok(batch.actions);
        }
        match self.commit(batch.changes).await {
            (_, Ok(())) => Ok(batch.actions),
            (changes, Err(StoreError::Full(reason))) => {
                tracing::error!(
                    reason,
                    "the store is full: free some space; until then reads continue with the leased splits, \
                    and nothing new begins"
                );
                let mut backlog = Backlog::new(reason);
                let (told, held): (Vec<_>, Vec<_>) = batch.actions.into_iter().partition(may_be_asked_again);
                backlog.add(changes, held);
                for action in told {
                    self.refuse(&action, backlog.refusal());
                }
                self.backlog = Some(backlog);
                Ok(Vec::new())
            }
            (_, Err(error @ (StoreError::Failed(_) | StoreError::Lost(_)))) => Err(error),
        }
    }

    /// Answers a request with an error instead of the decided answer.
    fn refuse(&mut self, action: &Action, error: Error) {
        if let Action::Reply { token, .. } = action
            && let Some(waiting) = self.waiting.remove(token)
        {
            // The send fails when the process no longer waits.
            waiting.send(Err(error)).ok();
        }
    }

    /// Stores changes outside of the loop's thread, and returns them with the result. A dispatcher that is
    /// stopped soon abandons the commit.
    async fn commit(&mut self, changes: Vec<Change>) -> (Vec<Change>, Result<(), StoreError>) {
        let lost = || {
            (
                Vec::new(),
                Err(StoreError::Failed("the commit panicked".to_owned())),
            )
        };
        let Some(mut store) = self.store.take() else {
            return lost();
        };
        let commit = tokio::task::spawn_blocking(move || {
            let result = store.commit(&changes);
            (store, changes, result)
        });
        let committed = tokio::select! {
            committed = commit => committed,
            () = stopped_for(&mut self.stopped, STOP_PATIENCE) => {
                let reason = "it was stopped before its store answered".to_owned();
                return (Vec::new(), Err(StoreError::Lost(reason)));
            }
        };
        let Ok((store, changes, result)) = committed else {
            return lost();
        };
        self.store = Some(store);
        (changes, result)
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Reply { token, result } => {
                if let Some(waiting) = self.waiting.remove(&token) {
                    // The send fails when the peer is gone and repeats its request.
                    waiting.send(result).ok();
                }
            }
            Action::PushClient {
                session,
                client,
                push,
            } => {
                self.push(session, WirePush::Client(client, push.into()));
            }
            Action::PushWorker { session, push } => self.push(session, WirePush::Worker(push.into())),
            Action::ProbeWorker { worker, address } => self.probes.begin(worker, address),
            Action::PlanSplits {
                iteration,
                repetition,
                dataset,
            } => self.listings.begin(iteration, repetition, dataset),
            Action::Disconnect { session, reason } => {
                tracing::warn!(%session, reason, "a worker was given up");
                if let Some(peer) = self.peers.remove(&session) {
                    peer.connection.close(CLOSE_GIVEN_UP, reason.as_bytes());
                }
            }
        }
    }

    fn push(&mut self, session: SessionId, push: WirePush) {
        let Some(peer) = self.peers.get(&session) else {
            return;
        };
        if peer.pushes.try_send(push).is_err() {
            // The process reconnects and receives a snapshot (C4.2).
            tracing::warn!(%session, "a process does not take what it is told: reconnecting it");
            peer.connection
                .close(CLOSE_RECONNECT, b"pushes were not taken in time");
            self.peers.remove(&session);
        }
    }
}

/// Closes the endpoint if the loop panics, so that no process waits for the loop.
impl Drop for EventLoop {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.endpoint.close("the dispatcher has failed");
        }
    }
}

/// Returns whether the process can do without this answer. A repeated request leads to the same dataset or
/// job, or to an equal job, and the unknown one is collected. All other answers are needed.
fn may_be_asked_again(action: &Action) -> bool {
    let Action::Reply {
        result: Ok(reply), ..
    } = action
    else {
        return false;
    };
    matches!(reply, Reply::Dataset(_) | Reply::Job(_))
}

/// Waits until this time after the dispatcher was stopped.
async fn stopped_for(stopped: &mut watch::Receiver<bool>, time: Duration) {
    // An error means that the server was dropped, which stops it as well.
    stopped.wait_for(|stop| *stop).await.ok();
    tokio::time::sleep(time).await;
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake.into()).await,
        None => std::future::pending().await,
    }
}
