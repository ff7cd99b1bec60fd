//! The one task that owns the machine: events in a line, group commit, then actions (C1.6).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use millstream_link::Endpoint;
use quinn::{Connection, VarInt};
use tokio::sync::{mpsc, oneshot, watch};

use super::listings::Listings;
use crate::dispatcher::{Action, Dispatcher, Event, Incoming, Moment, Reply, ReplyToken, Request};
use crate::error::Error;
use crate::id::{ClientId, RequestNumber, SessionId};
use crate::pace::Measures;
use crate::planner::Planner;
use crate::rpc::wire::{CLOSE_SHUT_DOWN, WirePush};
use crate::store::{Store, StoreError};

/// Events that wait for the loop. A connection waits with its next request while it is full.
pub(super) const INPUTS_MAX: usize = 4096;
/// Events of one group commit.
const GROUP_MAX: usize = 1024;
/// Close code: this worker was given up.
const CLOSE_GIVEN_UP: VarInt = VarInt::from_u32(2);
/// Close code: the peer does not take what is pushed to it, or has come back on another connection.
const CLOSE_RECONNECT: VarInt = VarInt::from_u32(3);

/// What connections tell the loop.
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
        /// Where the answer goes: it says that this loop goes round, so it comes from here (C1.9).
        answers: mpsc::Sender<WirePush>,
        /// Told when it is answered: the process' next one may come.
        taken: oneshot::Sender<()>,
    },
    Connected {
        session: SessionId,
        peer: Peer,
        /// Told once the loop knows the process.
        admitted: oneshot::Sender<()>,
    },
    Disconnected {
        session: SessionId,
        connection_id: usize,
    },
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
    listings: Listings,
    endpoint: Endpoint,
    started: Instant,
    peers: BTreeMap<SessionId, Peer>,
    waiting: BTreeMap<ReplyToken, oneshot::Sender<Result<Reply, Error>>>,
    next_token: u64,
    /// Answers to signs of life and to hellos, for when what came before them is stored.
    beats: Vec<(mpsc::Sender<WirePush>, u64, oneshot::Sender<()>)>,
    hellos: Vec<oneshot::Sender<()>>,
}

impl EventLoop {
    pub(super) fn new(
        dispatcher: Dispatcher,
        store: Box<dyn Store>,
        planner: Arc<dyn Planner>,
        endpoint: Endpoint,
    ) -> EventLoop {
        let listings = Listings::new(planner, dispatcher.config().plan_deadline);
        EventLoop {
            dispatcher,
            store: Some(store),
            listings,
            endpoint,
            started: Instant::now(),
            peers: BTreeMap::new(),
            waiting: BTreeMap::new(),
            next_token: 0,
            beats: Vec::new(),
            hellos: Vec::new(),
        }
    }

    /// Runs until told to stop, or until the store fails: then nobody is served any more, and everybody is told why.
    pub(super) async fn run(
        mut self,
        events: mpsc::Receiver<Input>,
        stopped: watch::Receiver<bool>,
    ) -> Result<(), StoreError> {
        let result = self.decide(events, stopped).await;
        if let Err(error) = &result {
            tracing::error!(%error, "the dispatcher stops: what it decided cannot be stored");
            self.endpoint.close("the dispatcher's store failed");
        }
        result
    }

    async fn decide(
        &mut self,
        mut events: mpsc::Receiver<Input>,
        mut stopped: watch::Receiver<bool>,
    ) -> Result<(), StoreError> {
        // What a loaded machine wants done at once.
        self.finish_group().await?;
        loop {
            let wake = self.dispatcher.next_timeout().map(|wake| self.started + wake);
            tokio::select! {
                input = events.recv() => match input {
                    Some(input) => {
                        self.take(input);
                        for _ in 1..GROUP_MAX {
                            let Ok(input) = events.try_recv() else { break };
                            self.take(input);
                        }
                    }
                    None => return Ok(()),
                },
                (iteration, result) = self.listings.next() => {
                    let now = self.now();
                    self.dispatcher.handle(Event::SplitsPlanned { iteration, result }, now);
                }
                () = sleep_until(wake) => {
                    let now = self.now();
                    self.dispatcher.handle(Event::Woken, now);
                }
                _ = stopped.wait_for(|stop| *stop) => return Ok(()),
            }
            self.finish_group().await?;
            if let Some(by) = self.dispatcher.closed_by().map(str::to_owned) {
                self.close(&by);
                return Ok(());
            }
        }
    }

    /// C12.3: nobody is left who could be waited for.
    fn close(&mut self, by: &str) {
        tracing::warn!(by, "the service was shut down");
        for peer in std::mem::take(&mut self.peers).into_values() {
            peer.connection.close(CLOSE_SHUT_DOWN.into(), by.as_bytes());
        }
    }

    fn take(&mut self, input: Input) {
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
            Input::Disconnected {
                session,
                connection_id,
            } => {
                let current = self.peers.get(&session);
                if current.is_some_and(|peer| peer.connection.stable_id() == connection_id) {
                    self.peers.remove(&session);
                }
                return;
            }
        };
        let now = self.now();
        self.dispatcher.handle(event, now);
    }

    fn measure(&mut self, session: SessionId, measures: Measures) {
        if !measures.is_empty() {
            let now = self.now();
            self.dispatcher.handle(Event::Measured { session, measures }, now);
        }
    }

    /// Stores what changed, then carries out what was decided.
    async fn finish_group(&mut self) -> Result<(), StoreError> {
        if self.dispatcher.has_batch() {
            let actions = self.store_batch().await?;
            for action in actions {
                self.perform(action);
            }
        }
        for admitted in self.hellos.drain(..) {
            // Fails when the process is gone already.
            admitted.send(()).ok();
        }
        for (answers, sequence, taken) in self.beats.drain(..) {
            // A full queue means that the process does not listen; it then hears no answer to its signs of life either.
            answers.try_send(WirePush::Beat(sequence)).ok();
            // Fails when the process is gone.
            taken.send(()).ok();
        }
        Ok(())
    }

    async fn store_batch(&mut self) -> Result<Vec<Action>, StoreError> {
        let lost = || StoreError("it died while storing".to_owned());
        let mut store = self.store.take().ok_or_else(lost)?;
        if store.is_volatile() {
            self.store = Some(store);
            return Ok(self.dispatcher.take_actions());
        }
        let batch = self.dispatcher.take_batch();
        if batch.changes.is_empty() {
            self.store = Some(store);
            return Ok(batch.actions);
        }
        let commit = tokio::task::spawn_blocking(move || {
            let result = store.commit(batch.changes);
            (store, result)
        });
        let (store, result) = commit.await.map_err(|_| lost())?;
        self.store = Some(store);
        result?;
        Ok(batch.actions)
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Reply { token, result } => {
                if let Some(waiting) = self.waiting.remove(&token) {
                    // Fails when nobody waits any more: the peer is gone and asks again.
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
            // C4.2: it comes back and is told everything.
            tracing::warn!(%session, "a process does not take what it is told: reconnecting it");
            peer.connection
                .close(CLOSE_RECONNECT, b"pushes were not taken in time");
            self.peers.remove(&session);
        }
    }

    fn now(&self) -> Moment {
        self.started.elapsed()
    }
}

/// A loop that dies leaves nobody waiting for it.
impl Drop for EventLoop {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.endpoint.close("the dispatcher has failed");
        }
    }
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake.into()).await,
        None => std::future::pending().await,
    }
}
