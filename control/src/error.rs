//! The error of the control plane: a code to act on and a message to read.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

use minicbor::{Decode, Encode};

/// The kinds of errors. The numbers are part of the wire format and never change their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum Code {
    /// The request itself is wrong: the caller must change it.
    #[n(1)]
    InvalidArgument,
    /// The request names something that does not exist, or that no longer exists.
    #[n(2)]
    NotFound,
    /// The present state of the service does not allow the request.
    #[n(3)]
    FailedPrecondition,
    /// The role of the caller does not allow the request.
    #[n(4)]
    PermissionDenied,
    /// The request is not supported by this version.
    #[n(5)]
    Unimplemented,
    /// A limit of the service is reached.
    #[n(6)]
    ResourceExhausted,
    /// The service cannot be reached or is shutting down: a retry may succeed.
    #[n(7)]
    Unavailable,
    /// The request took longer than the deadline of the caller.
    #[n(8)]
    DeadlineExceeded,
    /// The dispatcher lost its state, or gave the caller up for dead: the caller must start again.
    #[n(9)]
    Aborted,
    /// A defect of this service.
    #[n(10)]
    Internal,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Code::InvalidArgument => "invalid argument",
            Code::NotFound => "not found",
            Code::FailedPrecondition => "failed precondition",
            Code::PermissionDenied => "permission denied",
            Code::Unimplemented => "not supported",
            Code::ResourceExhausted => "limit reached",
            Code::Unavailable => "unavailable",
            Code::DeadlineExceeded => "deadline exceeded",
            Code::Aborted => "aborted",
            Code::Internal => "internal error",
        })
    }
}

/// The error of a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Encode, Decode)]
#[error("{code}: {message}")]
pub struct Error {
    /// The kind of the error.
    #[n(0)]
    pub code: Code,
    /// The message, which states the fault, its place, and the remedy.
    #[n(1)]
    pub message: String,
}

macro_rules! constructors {
    ($($name:ident => $code:ident),* $(,)?) => {
        impl Error {
            $(pub(crate) fn $name(message: impl Into<String>) -> Error {
                Error { code: Code::$code, message: message.into() }
            })*
        }
    };
}

constructors! {
    invalid => InvalidArgument,
    not_found => NotFound,
    precondition => FailedPrecondition,
    denied => PermissionDenied,
    unimplemented => Unimplemented,
    exhausted => ResourceExhausted,
    unavailable => Unavailable,
    deadline => DeadlineExceeded,
    aborted => Aborted,
    internal => Internal,
}
