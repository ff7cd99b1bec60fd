//! Translates the reason for closing a link into QUIC's close codes, and close codes into the reason that the
//! other end sees (D1.3).

use millstream_link::CLOSE_OVER_QUOTA;
use quinn::{Connection, ConnectionError, ReadError, ReadExactError, VarInt, WriteError};

use crate::transport::LinkLost;

/// The code of a link closed on purpose, or for a reason of the closing side.
const CLOSE_DONE: VarInt = VarInt::from_u32(0);

/// The code of a link closed because the peer violated the protocol. The reason explains the violation.
const CLOSE_BLAMED: VarInt = VarInt::from_u32(1);

/// The code of a connection that the endpoint closed before a link existed.
const CLOSE_FULL: VarInt = VarInt::from_u32(CLOSE_OVER_QUOTA);

/// Closes a connection with a reason. Has no effect on a closed connection.
pub(super) fn close(connection: &Connection, why: &LinkLost) {
    let (code, reason) = match why.as_heard() {
        LinkLost::Blamed(reason) => (CLOSE_BLAMED, reason),
        LinkLost::Closed(reason)
        | LinkLost::Broken(reason)
        | LinkLost::Misbehaved(reason)
        | LinkLost::Full(reason)
        | LinkLost::Resource(reason) => (CLOSE_DONE, reason),
    };
    connection.close(code, reason.as_bytes());
}

/// Closes a connection whose owner gave no other reason.
pub(super) fn abandon(connection: &Connection, reason: &str) {
    connection.close(CLOSE_DONE, reason.as_bytes());
}

/// Returns the reason for the end of a link whose connection ended with `error`.
pub(super) fn lost(error: &ConnectionError) -> LinkLost {
    match error {
        ConnectionError::ApplicationClosed(close) => {
            let reason = String::from_utf8_lossy(&close.reason).into_owned();
            match close.error_code {
                CLOSE_BLAMED => LinkLost::Blamed(reason),
                CLOSE_FULL => LinkLost::Full(reason),
                _ => LinkLost::Closed(reason),
            }
        }
        ConnectionError::LocallyClosed => LinkLost::Closed("this side closed the link".into()),
        ConnectionError::VersionMismatch
        | ConnectionError::TransportError(_)
        | ConnectionError::ConnectionClosed(_)
        | ConnectionError::Reset
        | ConnectionError::TimedOut
        | ConnectionError::CidsExhausted => LinkLost::Broken(error.to_string()),
    }
}

/// Returns the reason for the end of a link whose stream cannot be read.
pub(super) fn unread(error: &ReadError) -> LinkLost {
    match error {
        ReadError::ConnectionLost(error) => lost(error),
        ReadError::Reset(_)
        | ReadError::ClosedStream
        | ReadError::IllegalOrderedRead
        | ReadError::ZeroRttRejected => LinkLost::Broken(error.to_string()),
    }
}

/// Returns the reason for the end of a link whose stream ended or broke within a message.
pub(super) fn cut(error: &ReadExactError) -> LinkLost {
    match error {
        ReadExactError::ReadError(error) => unread(error),
        ReadExactError::FinishedEarly(bytes) => LinkLost::Misbehaved(format!(
            "expected a whole message, found the end of the stream after {bytes} bytes"
        )),
    }
}

/// Returns the reason for the end of a link whose stream cannot be written.
pub(super) fn unwritten(error: &WriteError) -> LinkLost {
    match error {
        WriteError::ConnectionLost(error) => lost(error),
        WriteError::Stopped(_) | WriteError::ClosedStream | WriteError::ZeroRttRejected => {
            LinkLost::Broken(error.to_string())
        }
    }
}
