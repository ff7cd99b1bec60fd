//! The last word on a link: why one end closes it, and what the other makes of that (D1.3).

use millstream_link::CLOSE_OVER_QUOTA;
use quinn::{Connection, ConnectionError, ReadError, ReadExactError, VarInt, WriteError};

use crate::transport::LinkLost;

/// Closed on purpose, or for a reason of this side's own.
const CLOSE_DONE: VarInt = VarInt::from_u32(0);

/// Closed because of what the peer did; the reason says what.
const CLOSE_BLAMED: VarInt = VarInt::from_u32(1);

/// Closed by the endpoint itself, before there was a link.
const CLOSE_FULL: VarInt = VarInt::from_u32(CLOSE_OVER_QUOTA);

/// Closes a connection and says why. Without effect on one that is closed.
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

/// Closes a connection that nobody gave a reason for.
pub(super) fn abandon(connection: &Connection, reason: &str) {
    connection.close(CLOSE_DONE, reason.as_bytes());
}

/// Returns the meaning of a connection's end for its link.
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
        ConnectionError::LocallyClosed => LinkLost::Closed("this side closed it".into()),
        ConnectionError::VersionMismatch
        | ConnectionError::TransportError(_)
        | ConnectionError::ConnectionClosed(_)
        | ConnectionError::Reset
        | ConnectionError::TimedOut
        | ConnectionError::CidsExhausted => LinkLost::Broken(error.to_string()),
    }
}

/// Returns the meaning of a stream that cannot be read.
pub(super) fn unread(error: &ReadError) -> LinkLost {
    match error {
        ReadError::ConnectionLost(error) => lost(error),
        ReadError::Reset(_)
        | ReadError::ClosedStream
        | ReadError::IllegalOrderedRead
        | ReadError::ZeroRttRejected => LinkLost::Broken(error.to_string()),
    }
}

/// Returns the meaning of a stream that ends or breaks before so many bytes were read.
pub(super) fn cut(error: &ReadExactError) -> LinkLost {
    match error {
        ReadExactError::ReadError(error) => unread(error),
        ReadExactError::FinishedEarly(bytes) => {
            LinkLost::Misbehaved(format!("its messages end {bytes} bytes into one"))
        }
    }
}

/// Returns the meaning of a stream that cannot be written.
pub(super) fn unwritten(error: &WriteError) -> LinkLost {
    match error {
        WriteError::ConnectionLost(error) => lost(error),
        WriteError::Stopped(_) | WriteError::ClosedStream | WriteError::ZeroRttRejected => {
            LinkLost::Broken(error.to_string())
        }
    }
}
