//! One attempt to reach the dispatcher: the connection, the hello, and the judgement of failures.

use std::sync::Arc;
use std::time::Duration;

use millstream_link::{ConnectError, HostPort, RefusalReason, Role};
use quinn::{Connection, ConnectionError, RecvStream, SendStream};
use tokio::task::JoinSet;

use super::state::SessionShared;
use crate::error::Error;
use crate::rpc::frame::{self, FrameError, PUSH_BYTES_MAX};
use crate::rpc::wire::{CLOSE_NOT_LEADER, CLOSE_SHUT_DOWN, Hello, PROTOCOL_VERSION, Welcome};
use crate::rpc::{ALPN, IDLE_TIMEOUTS};

/// Maximum number of concurrent attempts to connect.
const ATTEMPTS_MAX: u32 = 2;

/// The beginning of the error of a process that reaches only a dispatcher that does not lead.
pub const NOT_LEADING: &str = "this dispatcher does not lead";

/// The duration of one attempt, as a multiple of the attempt deadline.
const ATTEMPT_DEADLINES: u32 = 5;

/// A connection to a dispatcher that has welcomed this process, with the long-lived stream.
pub(super) type Found = (Connection, Welcome, (SendStream, RecvStream));

/// The reason for which a connection or an attempt ended.
#[derive(Debug)]
pub(super) enum Ended {
    Retry(String),
    GiveUp(Error),
}

/// Begins an attempt beside the attempts in progress, and waits until one of them succeeds or the attempt
/// deadline passes.
pub(super) async fn attempt(
    shared: &Arc<SessionShared>,
    attempts: &mut JoinSet<Result<Connection, Ended>>,
) -> Result<Found, Ended> {
    let deadline = shared.config.attempt_deadline;
    if attempts.len() < ATTEMPTS_MAX as usize {
        let shared = Arc::clone(shared);
        attempts.spawn(async move {
            let address = shared.address.first();
            connect(&shared, address, deadline * ATTEMPT_DEADLINES).await
        });
    }
    let connection = match tokio::time::timeout(deadline, attempts.join_next()).await {
        Ok(Some(Ok(connected))) => connected?,
        Ok(Some(Err(error))) => return Err(Ended::Retry(format!("an attempt to connect panicked: {error}"))),
        Ok(None) | Err(_) => return Err(Ended::Retry(no_answer(shared))),
    };
    match tokio::time::timeout(deadline * ATTEMPT_DEADLINES, greet(shared, &connection, None)).await {
        Ok(Ok((welcome, streams))) => Ok((connection, welcome, streams)),
        Ok(Err(error)) => {
            note_close(shared, &connection);
            let reason = named_leader(&connection).map(|leader| not_leading(&leader));
            let lost = || Ended::Retry(reason.unwrap_or_else(|| error.to_string()));
            Err(shut_down(shared).map_or_else(lost, Ended::GiveUp))
        }
        Err(_) => Err(Ended::Retry(
            "the dispatcher did not answer the hello in time".to_owned(),
        )),
    }
}

/// Returns the message for a process that knows only one of several dispatchers.
fn not_leading(leader: &str) -> String {
    let leader = if leader.is_empty() {
        "no other leads yet".to_owned()
    } else {
        format!("the leader is {leader}")
    };
    format!("{NOT_LEADING}, and {leader}: give the addresses of all dispatchers, as in a:5050,b:5050")
}

/// Returns the message for attempts that did not succeed within the attempt deadline.
fn no_answer(shared: &SessionShared) -> String {
    let (address, deadline) = (&shared.address, shared.config.attempt_deadline.as_millis());
    format!(
        "no answer from {address} within {deadline} ms: check that a dispatcher runs there and that UDP can reach it"
    )
}

/// Makes one connection to a dispatcher, without a hello.
pub(super) async fn connect(
    shared: &SessionShared,
    address: &HostPort,
    deadline: Duration,
) -> Result<Connection, Ended> {
    let idle_timeout = shared
        .endpoint
        .config()
        .idle_timeout
        .saturating_mul(IDLE_TIMEOUTS);
    let resolved = address.resolve(deadline).await;
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

/// Sends the hello, and waits for the welcome.
pub(super) async fn greet(
    shared: &SessionShared,
    connection: &Connection,
    known_leader: Option<String>,
) -> Result<(Welcome, (SendStream, RecvStream)), FrameError> {
    let streams = connection.open_bi().await;
    let (mut send, mut recv) = streams.map_err(|error| FrameError::Lost(error.to_string()))?;
    let hello = Hello {
        version: PROTOCOL_VERSION,
        session: shared.id,
        known_leader,
    };
    frame::write(&mut send, &hello).await?;
    let welcome = frame::read(&mut recv, PUSH_BYTES_MAX).await?;
    Ok((welcome, (send, recv)))
}

/// Returns the error of a service that was shut down, so that no further request is sent (C12.3).
pub(super) fn shut_down(shared: &SessionShared) -> Option<Error> {
    let (by, address) = (shared.shut_down_by.lock().clone()?, &shared.address);
    Some(Error::aborted(format!(
        "the service at {address} was shut down by {by}"
    )))
}

/// Notes the process that shut the service down, if the connection was closed for that reason (C12.3).
pub(super) fn note_close(shared: &SessionShared, connection: &Connection) {
    if let Some(ConnectionError::ApplicationClosed(close)) = connection.close_reason()
        && close.error_code.into_inner() == u64::from(CLOSE_SHUT_DOWN)
    {
        let by = String::from_utf8_lossy(&close.reason).into_owned();
        shared.shut_down_by.lock().get_or_insert(by);
    }
}

/// Returns the leader's address with which a dispatcher closed the connection.
pub(super) fn named_leader(connection: &Connection) -> Option<String> {
    match connection.close_reason() {
        Some(ConnectionError::ApplicationClosed(close))
            if close.error_code.into_inner() == u64::from(CLOSE_NOT_LEADER) =>
        {
            Some(String::from_utf8_lossy(&close.reason).into_owned())
        }
        Some(_) | None => None,
    }
}
