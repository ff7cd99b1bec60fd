//! The one task that owns the machine: events in a line, group commit, then actions (C1.6).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use millstream_link::Endpoint;
use quinn::{Connection, VarInt};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use crate::dispatcher::{
    Action, DatasetRecord, Dispatcher, Event, Incoming, Moment, Reply, ReplyToken, Request,
};
use crate::error::Error;
use crate::id::{ClientId, IterationId, RequestNumber, SessionId};
use crate::planner::{PlanError, Planner, SplitPlan};
use crate::rpc::wire::WirePush;
use crate::store::{Store, StoreError};

/// Events that wait for the loop. A connection waits with its next request while it is full.
pub(super) const INPUTS_MAX: usize = 4096;
/// Events of one group commit.
const GROUP_MAX: usize = 1024;
/// Listings at a time: they wait for file systems.
const PLANS_MAX: usize = 4;
/// Close code: this worker was given up.
const CLOSE_GIVEN_UP: VarInt = VarInt::from_u32(2);
/// Close code: the peer does not take what is pushed to it, or has come back on another connection.
const CLOSE_RECONNECT: VarInt = VarInt::from_u32(3);

/// What connections and helpers tell the loop.
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
    },
    Planned {
        iteration: IterationId,
        result: Result<SplitPlan, PlanError>,
    },
    Connected {
        session: SessionId,
        peer: Peer,
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
    planner: Arc<dyn Planner>,
    plans: Arc<Semaphore>,
    /// For what helpers answer.
    inputs: mpsc::Sender<Input>,
    endpoint: Endpoint,
    started: Instant,
    peers: BTreeMap<SessionId, Peer>,
    waiting: BTreeMap<ReplyToken, oneshot::Sender<Result<Reply, Error>>>,
    next_token: u64,
}

impl EventLoop {
    pub(super) fn new(
        dispatcher: Dispatcher,
        store: Box<dyn Store>,
        planner: Arc<dyn Planner>,
        inputs: mpsc::Sender<Input>,
        endpoint: Endpoint,
    ) -> EventLoop {
        EventLoop {
            dispatcher,
            store: Some(store),
            planner,
            plans: Arc::new(Semaphore::new(PLANS_MAX)),
            inputs,
            endpoint,
            started: Instant::now(),
            peers: BTreeMap::new(),
            waiting: BTreeMap::new(),
            next_token: 0,
        }
    }

    /// Runs until told to stop, or until the store fails.
    pub(super) async fn run(
        mut self,
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
                () = sleep_until(wake) => {
                    let now = self.now();
                    self.dispatcher.handle(Event::Woken, now);
                }
                _ = stopped.wait_for(|stop| *stop) => return Ok(()),
            }
            if let Err(error) = self.finish_group().await {
                tracing::error!(%error, "the dispatcher stops: what it decided cannot be stored");
                self.endpoint.close("the dispatcher's store failed");
                return Err(error);
            }
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
            } => Event::Heartbeat {
                session,
                worker,
                clients,
            },
            Input::Planned { iteration, result } => Event::SplitsPlanned { iteration, result },
            Input::Connected { session, peer } => {
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

    /// Stores what changed, then carries out what was decided.
    async fn finish_group(&mut self) -> Result<(), StoreError> {
        if !self.dispatcher.has_batch() {
            return Ok(());
        }
        let batch = self.dispatcher.take_batch();
        if !batch.changes.is_empty() {
            let lost = || StoreError("it died while storing".to_owned());
            let mut store = self.store.take().ok_or_else(lost)?;
            let commit = tokio::task::spawn_blocking(move || {
                let result = store.commit(batch.changes);
                (store, result)
            });
            let (store, result) = commit.await.map_err(|_| lost())?;
            self.store = Some(store);
            result?;
        }
        for action in batch.actions {
            self.perform(action);
        }
        Ok(())
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
            Action::PlanSplits { iteration, dataset } => self.plan(iteration, dataset),
            Action::Disconnect { session, reason } => {
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

    fn plan(&self, iteration: IterationId, dataset: Arc<DatasetRecord>) {
        let planner = Arc::clone(&self.planner);
        let plans = Arc::clone(&self.plans);
        let inputs = self.inputs.clone();
        tokio::spawn(async move {
            let Ok(_permit) = plans.acquire_owned().await else {
                return;
            };
            let listing = tokio::task::spawn_blocking(move || planner.plan_splits(&dataset.definition));
            let died = || PlanError::Source("the listing died: see the dispatcher's log".to_owned());
            let result = listing.await.unwrap_or_else(|_| Err(died()));
            // Fails when the dispatcher stops: nobody needs the plan then.
            inputs.send(Input::Planned { iteration, result }).await.ok();
        });
    }

    fn now(&self) -> Moment {
        self.started.elapsed()
    }
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake.into()).await,
        None => std::future::pending().await,
    }
}
