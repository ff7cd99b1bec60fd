//! The connection of one process: its hello, its heartbeats, its requests, and its pushes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_link::{Accepted, PeerLimits, Role};
use parking_lot::Mutex;
use quinn::{Connection, ConnectionError, RecvStream, SendStream, VarInt};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;

use super::about;
use super::audit::{Asker, AuditLog, audited};
use super::event_loop::{Input, Peer};
use super::owners::Owners;
use super::rate::RequestRate;
use super::refusals::RefusalCounts;
use super::traced::TracedLease;
use crate::dispatcher::{Departure, DispatcherConfig, NAME_BYTES_MAX, Request};
use crate::error::Error;
use crate::id::{BootId, SessionId};
use crate::planner::{DatasetFacts, Planner};
use crate::rpc::frame::{
    self, ANSWER_BYTES_MAX, FrameError, LARGE_EXTRA_BYTES_MAX, SMALL_BYTES_MAX, SizeClass,
};
use crate::rpc::wire::{
    Beat, CLOSE_GOODBYE, CLOSE_NOT_LEADER, Envelope, Hello, PROTOCOL_VERSION, Welcome, WirePush, WireRequest,
    WireResponse,
};

/// The time within which a process must send its hello.
pub(super) const HELLO_DEADLINE: Duration = Duration::from_secs(15);
/// The time within which a request must arrive completely, from its first byte on.
const REQUEST_DEADLINE: Duration = Duration::from_secs(30);
/// Maximum number of concurrent requests of one process. Further requests wait in their streams.
const REQUESTS_MAX: usize = 64;
/// The bytes and streams that one process may send before the dispatcher reads them (C1.12). The limits are
/// small because a dispatcher may have thousands of processes with unread data.
pub(super) const PROCESS_LIMITS: PeerLimits = PeerLimits {
    stream_window_bytes: 2 * SMALL_BYTES_MAX as u32,
    connection_window_bytes: 4 * SMALL_BYTES_MAX as u32,
    uni_streams_max: 0,
    // One stream for each request, and the long-lived stream.
    bidi_streams_max: REQUESTS_MAX as u32 + 1,
};
/// The close code for a peer that broke the protocol.
pub(super) const CLOSE_PROTOCOL: VarInt = VarInt::from_u32(4);

/// The state that all connections share.
pub(super) struct Shared {
    pub(super) inputs: mpsc::Sender<Input>,
    pub(super) planner: Arc<dyn Planner>,
    pub(super) analyses: Semaphore,
    pub(super) config: DispatcherConfig,
    pub(super) boot: BootId,
    /// Maximum number of messages that wait to be pushed to one process.
    pub(super) pushes_max: usize,
    pub(super) owners: Mutex<Owners>,
    pub(super) audit: Option<AuditLog>,
    pub(super) refusals: RefusalCounts,
    /// True once another dispatcher leads, so that every process must look for it (C17.4).
    pub(super) deposed: watch::Receiver<bool>,
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
        Ok(Ok((hello, send, recv))) => (hello.session, send, recv),
        Ok(Err(error)) => {
            tracing::debug!(%peer, %error, "a process sent no valid hello");
            connection.close(CLOSE_PROTOCOL, error.to_string().as_bytes());
            return;
        }
        Err(_) => {
            connection.close(CLOSE_PROTOCOL, b"no hello in time");
            return;
        }
    };
    // The role and the key of the process are valid, so the refusal concerns only the session.
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
    let mut deposed = shared.deposed.clone();
    let ended = tokio::select! {
        ended = attend(&connection, session, asker, send, recv, &shared) => ended,
        // The connection may close while the event loop takes no input.
        _ = connection.closed() => Ok(()),
        Ok(_) = deposed.wait_for(|deposed| *deposed) => {
            connection.close(CLOSE_NOT_LEADER.into(), b"");
            Ok(())
        }
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
    // The send fails when the dispatcher stops, and then no peer needs the report.
    shared.inputs.send(gone).await.ok();
}

/// Distinguishes a process that is gone from a process that may come back.
fn departure(connection: &Connection) -> Departure {
    match connection.close_reason() {
        Some(ConnectionError::ApplicationClosed(close)) if close.error_code == CLOSE_GOODBYE.into() => {
            Departure::Goodbye
        }
        Some(ConnectionError::Reset) => Departure::Reset,
        Some(_) | None => Departure::Lost,
    }
}

/// Receives the hello of a process, and its long-lived stream.
pub(super) async fn hear_hello(
    connection: &Connection,
) -> Result<(Hello, SendStream, RecvStream), FrameError> {
    let streams = connection.accept_bi().await;
    let (send, mut recv) = streams.map_err(|error| FrameError::Lost(error.to_string()))?;
    let hello: Hello = frame::read(&mut recv, SMALL_BYTES_MAX).await?;
    if hello.version != PROTOCOL_VERSION {
        return Err(FrameError::Malformed(format!(
            "the process uses version {} of the control protocol, and this dispatcher uses \
            {PROTOCOL_VERSION}",
            hello.version
        )));
    }
    Ok((hello, send, recv))
}

/// Serves a process whose hello has arrived.
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
    // A process is welcomed only after the event loop has noted its hello, so that a loop that hangs
    // welcomes no process (C1.9).
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

/// Receives the heartbeats of a process, and passes each to the event loop.
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
        // The next heartbeat is read only after the previous heartbeat was answered (C1.11).
        if shared.inputs.send(input).await.is_err() || is_taken.await.is_err() {
            // The event loop is gone. The code that ended the loop closes the connection, and gives the
            // reason.
            return std::future::pending().await;
        }
    }
}

/// Sends the pushes of the queue to a process.
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
                    // Requests beyond the rate wait in their streams (C15.5).
                    shared.refusals.note_delayed();
                    tokio::time::sleep(wait).await;
                }
                requests.spawn(answer(send, recv, session, asker, Arc::clone(shared)));
            }
            Some(_) = requests.join_next() => {}
        }
    }
}

/// Answers one request. A message that cannot be read is refused, and the connection stays open (C1.7).
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
            // The peer no longer waits for the answer on this stream.
            _ = send.stopped() => return,
        },
        Err(error) => Err(error),
    };
    shared.refusals.look_at(&mut result);
    about::add_to(&mut result);
    let response = WireResponse {
        result: result.map(Into::into),
    };
    // The answer is encoded outside of the event loop, because splits may carry thousands of names.
    let mut bytes = frame::encode(&response);
    if bytes.len() > ANSWER_BYTES_MAX {
        let error = Error::exhausted(format!(
            "the answer has {} bytes, more than the limit of {ANSWER_BYTES_MAX}: the dataset lists too \
            many files",
            bytes.len()
        ));
        bytes = frame::encode(&WireResponse { result: Err(error) });
    }
    // A peer that is gone repeats its request.
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
                "expected a request to begin with its size class, 1 or 2, found {}",
                code[0]
            )));
        }
    };
    let bytes = frame::read_rest(recv, limit).await.map_err(unreadable)?;
    frame::decode(&bytes).map_err(unreadable)
}

/// Returns the error for a role that may not register datasets: workers run the code of a dataset (C1.4).
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
        // The name is the process's own claim. The dispatcher appends the address of the connection, and
        // cuts the name to leave space for the address (C12.1).
        let from = format!(" at {}", asker.address);
        by.truncate(by.floor_char_boundary(NAME_BYTES_MAX - from.len()));
        by.push_str(&from);
    }
    let audit = shared.audit.as_ref().zip(audited(&request));
    let traced = TracedLease::begin(&shared.config.tracer, &request);
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
        if let Some(traced) = traced {
            traced.end(&answer);
        }
        return answer;
    }
    // The event loop is gone, and the connection is about to be closed. An error would count as an answer.
    // Without an answer the peer repeats its request, even at another process that takes over this address.
    std::future::pending().await
}

async fn analyse(definition: Vec<u8>, shared: &Arc<Shared>) -> Result<DatasetFacts, Error> {
    let died = || Error::internal("the analysis of the dataset panicked: see the dispatcher's log");
    let _permit = shared.analyses.acquire().await.map_err(|_| died())?;
    let planner = Arc::clone(&shared.planner);
    let analysis = tokio::task::spawn_blocking(move || planner.facts(&definition));
    let facts = analysis.await.map_err(|_| died())?;
    facts.map_err(|error| Error::invalid(format!("the dataset cannot be registered: {error}")))
}
