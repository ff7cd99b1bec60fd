//! The driver of a session: connects, sends heartbeats, receives pushes, and reconnects.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use millstream_link::{ConnectError, RefusalReason, Role};
use quinn::{Connection, ConnectionError, RecvStream, SendStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use super::state::{LinkState, SessionEvent, SessionShared};
use crate::error::Error;
use crate::id::{BootId, ClientId};
use crate::rpc::frame::{self, FrameError, PUSH_BYTES_MAX};
use crate::rpc::wire::{Beat, CLOSE_GOODBYE, CLOSE_SHUT_DOWN, Hello, PROTOCOL_VERSION, Welcome, WirePush};
use crate::rpc::{ALPN, IDLE_TIMEOUTS};

/// Maximum number of clients that one heartbeat names. At 9 bytes each they leave space for other data in
/// its 64 KiB.
const BEAT_CLIENTS_MAX: usize = 4096;

/// The number of liveness limits after which a connection with a silent dispatcher counts as lost.
const SILENCES: u32 = 3;

/// Maximum number of concurrent attempts to connect.
const ATTEMPTS_MAX: u32 = 2;

/// The duration of one attempt, as a multiple of the attempt deadline.
const ATTEMPT_DEADLINES: u32 = 5;

/// Maximum number of heartbeats without an answer. An overloaded dispatcher is not sent more heartbeats
/// than it answers.
const UNANSWERED_MAX: usize = 2;

/// The reason for which a connection or an attempt ended.
enum Ended {
    Retry(String),
    GiveUp(Error),
}

/// Keeps the session connected until the session fails for good or is dropped.
pub(super) async fn drive(shared: Arc<SessionShared>, events: mpsc::Sender<SessionEvent>) {
    let mut pause = shared.config.backoff_min;
    let mut noticed: Option<Instant> = None;
    let mut lost: Option<Instant> = None;
    let mut known: Option<BootId> = None;
    let mut attempts = JoinSet::new();
    loop {
        shared.tries.lock().begin(Instant::now());
        let ended = match attempt(&shared, &mut attempts).await {
            Ok((connection, welcome, streams)) => {
                attempts.shutdown().await;
                if known
                    .replace(welcome.boot)
                    .is_some_and(|known| known != welcome.boot)
                {
                    return fail_restarted(&shared, &events, &connection).await;
                }
                pause = shared.config.backoff_min;
                (noticed, lost) = (None, None);
                shared.tries.lock().succeed();
                note_welcome(&shared, &welcome);
                shared
                    .state
                    .send_modify(|state| up(state, &connection, welcome.boot));
                if events.send(SessionEvent::Up).await.is_err() {
                    return;
                }
                let reason = stay(&shared, &events, &connection, &welcome, streams).await;
                if events.send(SessionEvent::Down(reason.clone())).await.is_err() {
                    return;
                }
                match shut_down(&shared) {
                    Some(error) => Err(error),
                    None => Ok(reason),
                }
            }
            Err(Ended::Retry(reason)) => {
                // Only failed attempts are reported: a lost connection needs no message if the next attempt
                // succeeds.
                notice(&shared, &mut noticed, &reason);
                let lost = *lost.get_or_insert_with(Instant::now);
                if lost.elapsed() < shared.config.give_up {
                    Ok(reason)
                } else {
                    Err(given_up(&shared, &reason))
                }
            }
            Err(Ended::GiveUp(error)) => Err(error),
        };
        let reason = match ended {
            Ok(reason) => reason,
            Err(error) => {
                shared.state.send_replace(LinkState::Failed(error));
                return;
            }
        };
        let failed = !shared.state.send_if_modified(|state| match state {
            LinkState::Failed(_) => false,
            LinkState::Up(..) | LinkState::Waiting(_) => {
                *state = LinkState::Waiting(Some(reason.clone()));
                true
            }
        });
        if failed {
            return;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(shared.config.backoff_max);
    }
}

/// Notes the settings in the dispatcher's welcome, and the time of the welcome.
fn note_welcome(shared: &SessionShared, welcome: &Welcome) {
    *shared.heard.lock() = Some(Instant::now());
    shared.confirmed.lock().get_or_insert_with(Instant::now);
    *shared.client_timeout.lock() = welcome.client_timeout_ms.map(Duration::from_millis);
    *shared.liveness.lock() = liveness(welcome);
    *shared.deployment_mode.lock() = welcome.deployment_mode;
}

/// Returns the error of a service that was shut down, so that no further request is sent (C12.3).
fn shut_down(shared: &SessionShared) -> Option<Error> {
    let (by, address) = (shared.shut_down_by.lock().clone()?, &shared.address);
    Some(Error::aborted(format!(
        "the service at {address} was shut down by {by}"
    )))
}

/// Fails the session because the dispatcher's state has started another life (C1.8). The connection is used
/// for no request: waiting requests contain ids of the earlier life.
async fn fail_restarted(
    shared: &SessionShared,
    events: &mpsc::Sender<SessionEvent>,
    connection: &Connection,
) {
    connection.close(0_u32.into(), b"another dispatcher is known here");
    let error = Error::aborted(
        "the dispatcher restarted without its memory: the jobs and iterations of this process are gone, so \
         start them again (a dispatcher with a work directory, --work-dir, keeps its memory)",
    );
    shared.state.send_replace(LinkState::Failed(error));
    // The send fails when the session's owner is gone.
    events.send(SessionEvent::Restarted).await.ok();
}

fn given_up(shared: &SessionShared, reason: &str) -> Error {
    let (address, seconds) = (&shared.address, shared.config.give_up.as_secs_f64());
    Error::unavailable(format!(
        "the dispatcher at {address} has been out of reach for {seconds} s, and this process stops looking \
        for it: {reason}"
    ))
}

/// Notes the process that shut the service down, if the connection was closed for that reason (C12.3).
fn note_close(shared: &SessionShared, connection: &Connection) {
    if let Some(ConnectionError::ApplicationClosed(close)) = connection.close_reason()
        && close.error_code.into_inner() == u64::from(CLOSE_SHUT_DOWN)
    {
        let by = String::from_utf8_lossy(&close.reason).into_owned();
        shared.shut_down_by.lock().get_or_insert(by);
    }
}

fn up(state: &mut LinkState, connection: &Connection, boot: BootId) {
    match state {
        LinkState::Failed(_) => connection.close(CLOSE_GOODBYE.into(), b"the process has given up"),
        LinkState::Up(..) | LinkState::Waiting(_) => *state = LinkState::Up(connection.clone(), boot),
    }
}

fn notice(shared: &SessionShared, noticed: &mut Option<Instant>, reason: &str) {
    if noticed.is_some_and(|noticed| noticed.elapsed() < shared.config.notice_interval) {
        return;
    }
    let now = Instant::now();
    let address = shared.address.to_string();
    let Some(text) = shared.tries.lock().waiting(now, &address, reason) else {
        return;
    };
    *noticed = Some(now);
    match &shared.config.on_waiting {
        Some(on_waiting) => on_waiting(&text),
        None => tracing::warn!("{text}"),
    }
}

/// Begins an attempt beside the attempts in progress, and waits until one of them succeeds or the attempt
/// deadline passes.
async fn attempt(
    shared: &Arc<SessionShared>,
    attempts: &mut JoinSet<Result<Connection, Ended>>,
) -> Result<(Connection, Welcome, (SendStream, RecvStream)), Ended> {
    let deadline = shared.config.attempt_deadline;
    if attempts.len() < ATTEMPTS_MAX as usize {
        attempts.spawn(connect(Arc::clone(shared)));
    }
    let connection = match tokio::time::timeout(deadline, attempts.join_next()).await {
        Ok(Some(Ok(connected))) => connected?,
        Ok(Some(Err(error))) => return Err(Ended::Retry(format!("an attempt to connect panicked: {error}"))),
        Ok(None) | Err(_) => return Err(Ended::Retry(no_answer(shared))),
    };
    match tokio::time::timeout(deadline * ATTEMPT_DEADLINES, greet(shared, &connection)).await {
        Ok(Ok((welcome, streams))) => Ok((connection, welcome, streams)),
        Ok(Err(error)) => {
            note_close(shared, &connection);
            let lost = || Ended::Retry(error.to_string());
            Err(shut_down(shared).map_or_else(lost, Ended::GiveUp))
        }
        Err(_) => Err(Ended::Retry(
            "the dispatcher did not answer the hello in time".to_owned(),
        )),
    }
}

/// Returns the message for attempts that did not succeed within the attempt deadline.
fn no_answer(shared: &SessionShared) -> String {
    let (address, deadline) = (&shared.address, shared.config.attempt_deadline.as_millis());
    format!(
        "no answer from {address} within {deadline} ms: check that a dispatcher runs there and that UDP can reach it"
    )
}

/// Makes one connection to the dispatcher, without a hello.
async fn connect(shared: Arc<SessionShared>) -> Result<Connection, Ended> {
    let deadline = shared.config.attempt_deadline * ATTEMPT_DEADLINES;
    let idle_timeout = shared
        .endpoint
        .config()
        .idle_timeout
        .saturating_mul(IDLE_TIMEOUTS);
    let resolved = shared.address.resolve(deadline).await;
    let addresses = resolved.map_err(|error| Ended::Retry(error.to_string()))?;
    let mut last = Ended::Retry("the name has no address".to_owned());
    for address in addresses {
        let connecting =
            shared
                .endpoint
                .connect_patiently(address, (Role::Dispatcher, ALPN), deadline, idle_timeout);
        match connecting.await {
            Ok(connection) => return Ok(connection),
            Err(error) => last = judge(error),
        }
    }
    Err(last)
}

/// Decides whether another attempt may succeed.
fn judge(error: ConnectError) -> Ended {
    let text = error.to_string();
    match error {
        ConnectError::Untrusted { .. }
        | ConnectError::WrongRole { .. }
        | ConnectError::Revoked { .. }
        | ConnectError::Refused {
            reason:
                RefusalReason::UnknownKey { .. } | RefusalReason::RoleNotAdmitted { .. } | RefusalReason::Revoked,
            ..
        } => Ended::GiveUp(Error::denied(text)),
        ConnectError::Version { .. } => Ended::GiveUp(Error::precondition(text)),
        ConnectError::Tls(_) => Ended::GiveUp(Error::invalid(text)),
        ConnectError::EndpointClosed { .. } => Ended::GiveUp(Error::unavailable(text)),
        ConnectError::Refused {
            reason: RefusalReason::Busy | RefusalReason::Full { .. } | RefusalReason::Closed { .. },
            ..
        }
        | ConnectError::TimedOut { .. }
        | ConnectError::Unreachable { .. }
        | ConnectError::Failed { .. } => Ended::Retry(text),
    }
}

async fn greet(
    shared: &SessionShared,
    connection: &Connection,
) -> Result<(Welcome, (SendStream, RecvStream)), FrameError> {
    let streams = connection.open_bi().await;
    let (mut send, mut recv) = streams.map_err(|error| FrameError::Lost(error.to_string()))?;
    let hello = Hello {
        version: PROTOCOL_VERSION,
        session: shared.id,
    };
    frame::write(&mut send, &hello).await?;
    let welcome = frame::read(&mut recv, PUSH_BYTES_MAX).await?;
    Ok((welcome, (send, recv)))
}

fn liveness(welcome: &Welcome) -> Duration {
    Duration::from_millis(welcome.liveness_ms.max(1))
}

/// Serves one connection until the connection is lost, and returns the reason.
async fn stay(
    shared: &SessionShared,
    events: &mpsc::Sender<SessionEvent>,
    connection: &Connection,
    welcome: &Welcome,
    (send, recv): (SendStream, RecvStream),
) -> String {
    // The limit is generous, because new handshakes with all processes would overload a slow dispatcher for
    // even longer.
    let patience = liveness(welcome) * SILENCES;
    let sent = parking_lot::Mutex::new(VecDeque::new());
    let ended = tokio::select! {
        ended = speak(shared, send, welcome, &sent) => ended,
        ended = listen(shared, recv, events, patience, &sent) => ended,
    };
    note_close(shared, connection);
    let reason = match (ended, connection.close_reason()) {
        (_, Some(reason)) => reason.to_string(),
        (Err(error), None) => error.to_string(),
        (Ok(()), None) => "the owner of the session is gone".to_owned(),
    };
    connection.close(0_u32.into(), b"reconnecting");
    reason
}

type Sent = parking_lot::Mutex<VecDeque<(u64, Instant)>>;

async fn speak(
    shared: &SessionShared,
    mut send: SendStream,
    welcome: &Welcome,
    sent: &Sent,
) -> Result<(), FrameError> {
    let every = Duration::from_millis(welcome.heartbeat_ms.max(1));
    // The hello was the first heartbeat.
    let mut ticks = tokio::time::interval_at(Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = None;
    for sequence in 0.. {
        loop {
            ticks.tick().await;
            if sent.lock().len() < UNANSWERED_MAX {
                break;
            }
        }
        let clients = next_clients(&shared.clients.lock(), last);
        last = clients.last().copied();
        sent.lock().push_back((sequence, Instant::now()));
        let measures = shared.paces.lock().take();
        let beat = Beat::new(sequence, clients, measures);
        frame::write(&mut send, &beat).await?;
    }
    Ok(())
}

/// Returns the clients that the next heartbeat names. If one heartbeat cannot name all clients, they take
/// turns.
fn next_clients(clients: &BTreeSet<ClientId>, last: Option<ClientId>) -> Vec<ClientId> {
    let after = last.map_or(Bound::Unbounded, Bound::Excluded);
    let rest = clients.range((after, Bound::Unbounded));
    let again = last.into_iter().flat_map(|last| clients.range(..=last));
    rest.chain(again).take(BEAT_CLIENTS_MAX).copied().collect()
}

async fn listen(
    shared: &SessionShared,
    mut recv: RecvStream,
    events: &mpsc::Sender<SessionEvent>,
    patience: Duration,
    sent: &Sent,
) -> Result<(), FrameError> {
    loop {
        // The dispatcher answers heartbeats, so silence means that the dispatcher or its network is gone.
        let read = tokio::time::timeout(patience, frame::read(&mut recv, PUSH_BYTES_MAX)).await;
        let silent = || {
            FrameError::Lost(format!(
                "the dispatcher was silent for {} ms",
                patience.as_millis()
            ))
        };
        match read.map_err(|_| silent())?? {
            WirePush::Beat(sequence) => {
                let mut sent = sent.lock();
                while let Some((oldest, at)) = sent.front().copied()
                    && oldest <= sequence
                {
                    sent.pop_front();
                    if oldest == sequence {
                        *shared.heard.lock() = Some(at);
                        *shared.confirmed.lock() = Some(at);
                    }
                }
            }
            push @ (WirePush::Client(..) | WirePush::Worker(_)) => {
                if let Some(by) = push.shut_down_by() {
                    shared.shut_down_by.lock().get_or_insert_with(|| by.to_owned());
                }
                if events.send(SessionEvent::Push(push)).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests that heartbeats name every client (C4.3).
    #[test]
    fn heartbeats_mention_every_client_in_turn() {
        let most = BEAT_CLIENTS_MAX as u64;
        for count in [0, 1, most, most + 1, 2 * most + 7] {
            let clients: BTreeSet<ClientId> = (0..count).map(ClientId).collect();
            let mut mentioned = BTreeSet::new();
            let mut last = None;
            for _ in 0..3 {
                let next = next_clients(&clients, last);
                assert!(next.len() <= BEAT_CLIENTS_MAX);
                last = next.last().copied();
                mentioned.extend(next);
            }
            assert_eq!(mentioned, clients);
        }
    }
}
