//! One process: its hello, its heartbeats, its requests, and what is pushed to it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_link::{Accepted, PeerLimits, Role};
use parking_lot::Mutex;
use quinn::{Connection, ConnectionError, RecvStream, SendStream, VarInt};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;

use super::audit::{Asker, AuditLog, audited};
use super::event_loop::{Input, Peer};
use super::owners::Owners;
use super::rate::RequestRate;
use super::refusals::RefusalCounts;
use crate::dispatcher::{Departure, DispatcherConfig, NAME_BYTES_MAX, Request};
use crate::error::Error;
use crate::id::{BootId, SessionId};
use crate::planner::{DatasetFacts, Planner};
use crate::rpc::frame::{
    self, ANSWER_BYTES_MAX, FrameError, LARGE_EXTRA_BYTES_MAX, SMALL_BYTES_MAX, SizeClass,
};
use crate::rpc::wire::{
    Beat, CLOSE_GOODBYE, Envelope, Hello, PROTOCOL_VERSION, Welcome, WirePush, WireRequest, WireResponse,
};

/// A process must say who it is within this.
const HELLO_DEADLINE: Duration = Duration::from_secs(15);
/// A request must be complete within this after it began.
const REQUEST_DEADLINE: Duration = Duration::from_secs(30);
/// Requests of one process that are worked on at a time; the next wait in its streams.
const REQUESTS_MAX: usize = 64;
/// The bytes and streams that one process may send ahead of the dispatcher (C1.12). A dispatcher may have
/// thousands of processes, so what none of them is answered for must stay small.
pub(super) const PROCESS_LIMITS: PeerLimits = PeerLimits {
    stream_window_bytes: 2 * SMALL_BYTES_MAX as u32,
    connection_window_bytes: 4 * SMALL_BYTES_MAX as u32,
    uni_streams_max: 0,
    // One for each request, and the long-lived one.
    bidi_streams_max: REQUESTS_MAX as u32 + 1,
};
/// Close code: the peer broke the protocol.
const CLOSE_PROTOCOL: VarInt = VarInt::from_u32(4);

/// The state that all connections share.
pub(super) struct Shared {
    pub(super) inputs: mpsc::Sender<Input>,
    pub(super) planner: Arc<dyn Planner>,
    pub(super) analyses: Semaphore,
    pub(super) config: DispatcherConfig,
    pub(super) boot: BootId,
    /// Messages that wait to be pushed to one process.
    pub(super) pushes_max: usize,
    pub(super) owners: Mutex<Owners>,
    pub(super) audit: Option<AuditLog>,
    pub(super) refusals: RefusalCounts,
}

/// Serves one connection until it ends.
pub(super) async fn serve(accepted: Accepted, shared: Arc<Shared>) {
    let Accepted {
        connection,
        role,
        permit,
    } = accepted;
    let peer = connection.remote_address();
    let greeted = tokio::time::timeout(HELLO_DEADLINE, hear_hello(&connection)).await;
    let (session, send, recv) = match greeted {
        Ok(Ok(greeted)) => greeted,
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "a process did not introduce itself");
            connection.close(CLOSE_PROTOCOL, error.to_string().as_bytes());
            return;
        }
        Err(_) => {
            connection.close(CLOSE_PROTOCOL, b"no hello in time");
            return;
        }
    };
    // Not a refusal of the role or the key: the process has both.
    let admitted = shared
        .owners
        .lock()
        .admit(session, permit.peer(), role, Instant::now());
    if let Err(refused) = admitted {
        shared.refusals.note_session();
        tracing::warn!(%peer, %role, ?refused, "refused the session of a process");
        connection.close(CLOSE_PROTOCOL, refused.reason().as_bytes());
        return;
    }
    let asker = Asker {
        role,
        address: peer,
        certificate: permit.peer(),
    };
    if let Some(audit) = &shared.audit {
        audit.connected(asker);
    }
    let ended = tokio::select! {
        ended = attend(&connection, session, asker, send, recv, &shared) => ended,
        // Also while the loop does not take anything.
        _ = connection.closed() => Ok(()),
    };
    if let Err(error) = ended {
        tracing::debug!(%peer, %session, %error, "a process is disconnected");
        connection.close(CLOSE_PROTOCOL, error.to_string().as_bytes());
    }
    shared.owners.lock().leave(session, Instant::now());
    let connection_id = connection.stable_id();
    let gone = Input::Disconnected {
        session,
        connection_id,
        departure: departure(&connection),
    };
    // Fails when the dispatcher stops: it knows no peers then.
    shared.inputs.send(gone).await.ok();
}

/// Tells a process that is gone from one that may come back.
fn departure(connection: &Connection) -> Departure {
    match connection.close_reason() {
        Some(ConnectionError::ApplicationClosed(close)) if close.error_code == CLOSE_GOODBYE.into() => {
            Departure::Goodbye
        }
        Some(ConnectionError::Reset) => Departure::Reset,
        Some(_) | None => Departure::Lost,
    }
}

async fn hear_hello(connection: &Connection) -> Result<(SessionId, SendStream, RecvStream), FrameError> {
    let streams = connection.accept_bi().await;
    let (send, mut recv) = streams.map_err(|error| FrameError::Lost(error.to_string()))?;
    let hello: Hello = frame::read(&mut recv, SMALL_BYTES_MAX).await?;
    if hello.version != PROTOCOL_VERSION {
        return Err(FrameError::Malformed(format!(
            "the process speaks version {} of the control protocol, this dispatcher {PROTOCOL_VERSION}",
            hello.version
        )));
    }
    Ok((hello.session, send, recv))
}

/// Serves a process that has said who it is.
async fn attend(
    connection: &Connection,
    session: SessionId,
    asker: Asker,
    mut send: SendStream,
    recv: RecvStream,
    shared: &Arc<Shared>,
) -> Result<(), FrameError> {
    let (pushes, queue) = mpsc::channel(shared.pushes_max);
    let (admitted, admission) = oneshot::channel();
    let connected = Input::Connected {
        session,
        peer: Peer {
            connection: connection.clone(),
            pushes: pushes.clone(),
        },
        admitted,
    };
    let stopping = || FrameError::Lost("the dispatcher is shutting down".to_owned());
    shared.inputs.send(connected).await.map_err(|_| stopping())?;
    // C1.9: a loop that hangs welcomes nobody.
    admission.await.map_err(|_| stopping())?;
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let welcome = Welcome {
        version: PROTOCOL_VERSION,
        boot: shared.boot,
        heartbeat_ms: millis(shared.config.heartbeat_interval),
        liveness_ms: millis(shared.config.liveness),
        deployment_mode: shared.config.deployment_mode,
        client_timeout_ms: Some(millis(shared.config.client_timeout)),
    };
    frame::write(&mut send, &welcome).await?;
    let worker = asker.role == Role::Worker;
    tokio::select! {
        ended = hear(recv, session, worker, &pushes, shared) => ended,
        ended = push(send, queue) => ended,
        ended = answer_all(connection, session, asker, shared) => ended,
    }
}

/// Heartbeats come in.
async fn hear(
    mut recv: RecvStream,
    session: SessionId,
    worker: bool,
    pushes: &mpsc::Sender<WirePush>,
    shared: &Shared,
) -> Result<(), FrameError> {
    loop {
        let beat: Beat = frame::read(&mut recv, SMALL_BYTES_MAX).await?;
        let (taken, is_taken) = oneshot::channel();
        let sequence = beat.sequence;
        let (clients, measures) = beat.into_domain();
        let input = Input::Heartbeat {
            session,
            worker,
            clients,
            measures,
            sequence,
            answers: pushes.clone(),
            taken,
        };
        // C1.11
        if shared.inputs.send(input).await.is_err() || is_taken.await.is_err() {
            // The loop is gone. The side that ended it closes the connection, and says why.
            return std::future::pending().await;
        }
    }
}

/// Pushes go out.
async fn push(mut send: SendStream, mut queue: mpsc::Receiver<WirePush>) -> Result<(), FrameError> {
    while let Some(push) = queue.recv().await {
        frame::write(&mut send, &push).await?;
    }
    Ok(())
}

async fn answer_all(
    connection: &Connection,
    session: SessionId,
    asker: Asker,
    shared: &Arc<Shared>,
) -> Result<(), FrameError> {
    let mut requests = JoinSet::new();
    let mut rate = RequestRate::of(asker.role, Instant::now());
    loop {
        while requests.len() >= REQUESTS_MAX {
            requests.join_next().await;
        }
        tokio::select! {
            streams = connection.accept_bi() => {
                let (send, recv) = streams.map_err(|error| FrameError::Lost(error.to_string()))?;
                let wait = rate.take(Instant::now());
                if !wait.is_zero() {
                    // C15.5: the next ones wait in their streams.
                    shared.refusals.note_delayed();
                    tokio::time::sleep(wait).await;
                }
                requests.spawn(answer(send, recv, session, asker, Arc::clone(shared)));
            }
            Some(_) = requests.join_next() => {}
        }
    }
}

/// One request: a message that cannot be read is refused, and the connection goes on (C1.7).
async fn answer(
    mut send: SendStream,
    mut recv: RecvStream,
    session: SessionId,
    asker: Asker,
    shared: Arc<Shared>,
) {
    let read = tokio::time::timeout(REQUEST_DEADLINE, read_request(&mut recv, asker.role, &shared)).await;
    let envelope = match read {
        Ok(envelope) => envelope,
        Err(_) => Err(Error::unavailable(format!(
            "the request did not arrive completely within {} s",
            REQUEST_DEADLINE.as_secs()
        ))),
    };
    let mut result = match envelope {
        Ok(envelope) => tokio::select! {
            result = ask(envelope, session, asker, &shared) => result,
            // Nobody waits for the answer on this stream any more.
            _ = send.stopped() => return,
        },
        Err(error) => Err(error),
    };
    shared.refusals.look_at(&mut result);
    let response = WireResponse {
        result: result.map(Into::into),
    };
    // Encoded here, beside the loop: splits may carry thousands of names.
    let mut bytes = frame::encode(&response);
    if bytes.len() > ANSWER_BYTES_MAX {
        let error = Error::exhausted(format!(
            "the answer has {} bytes, more than the {ANSWER_BYTES_MAX} that may be sent: the dataset lists too many files",
            bytes.len()
        ));
        bytes = frame::encode(&WireResponse { result: Err(error) });
    }
    // A peer that is gone asks again.
    if send.write_chunk(bytes.into()).await.is_ok() {
        send.finish().ok();
    }
}

async fn read_request(recv: &mut RecvStream, role: Role, shared: &Shared) -> Result<Envelope, Error> {
    let unreadable = |error: FrameError| Error::invalid(format!("the request cannot be read: {error}"));
    let mut code = [0];
    frame::read_exact(recv, &mut code).await.map_err(unreadable)?;
    let limit = match SizeClass::from_code(code[0]) {
        Some(SizeClass::Small) => SMALL_BYTES_MAX,
        Some(SizeClass::Large) if role == Role::Submit => {
            shared.config.definition_bytes_max + LARGE_EXTRA_BYTES_MAX
        }
        Some(SizeClass::Large) => {
            return Err(may_not_register(role));
        }
        None => {
            return Err(Error::invalid(format!(
                "a request begins with 1 or 2, not {}",
                code[0]
            )));
        }
    };
    let bytes = frame::read_rest(recv, limit).await.map_err(unreadable)?;
    frame::decode(&bytes).map_err(unreadable)
}

/// C1.4: a client that registers a dataset has workers run code.
fn may_not_register(role: Role) -> Error {
    Error::denied(format!(
        "a peer of role `{role}` may not register datasets, since workers run what is in them: use the cluster key, or a \
         `submit` key"
    ))
}

async fn ask(
    envelope: Envelope,
    session: SessionId,
    asker: Asker,
    shared: &Arc<Shared>,
) -> Result<crate::dispatcher::Reply, Error> {
    let role = asker.role;
    let facts = if let WireRequest::RegisterDataset { definition, .. } = &envelope.request {
        if role != Role::Submit {
            return Err(may_not_register(role));
        }
        Some(analyse(definition.to_vec(), shared).await?)
    } else {
        None
    };
    let mut request = envelope.request.into_domain(facts)?;
    if let Request::Shutdown { by } = &mut request {
        // C12.1: what it says of itself is worth what its word is, and leaves room for where it is, which we
        // know.
        let from = format!(" at {}", asker.address);
        by.truncate(by.floor_char_boundary(NAME_BYTES_MAX - from.len()));
        by.push_str(&from);
    }
    let audit = shared.audit.as_ref().zip(audited(&request));
    let (reply, answered) = oneshot::channel();
    let input = Input::Asked {
        session,
        role,
        number: envelope.number,
        settled_below: envelope.settled_below,
        request,
        reply,
    };
    if shared.inputs.send(input).await.is_ok()
        && let Ok(answer) = answered.await
    {
        if let Some((audit, audited)) = audit {
            audit.asked(asker, audited, &answer);
        }
        return answer;
    }
    // Nobody decides any more, and the connection is about to be closed. An error would be an answer; without
    // one the peer asks again, even if another process has come in this one's place.
    std::future::pending().await
}

async fn analyse(definition: Vec<u8>, shared: &Arc<Shared>) -> Result<DatasetFacts, Error> {
    let died = || Error::internal("the analysis of the dataset died: see the dispatcher's log");
    let _permit = shared.analyses.acquire().await.map_err(|_| died())?;
    let planner = Arc::clone(&shared.planner);
    let analysis = tokio::task::spawn_blocking(move || planner.facts(&definition));
    let facts = analysis.await.map_err(|_| died())?;
    facts.map_err(|error| Error::invalid(format!("the dataset cannot be registered: {error}")))
}
