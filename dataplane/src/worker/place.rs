//! The place that a client asks for in a task, and the refusal of it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::proto::message::RefusalCode;

/// The consumer and the trainer as which a client reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Role<'a> {
    /// The consumer that its ticket names.
    pub(super) consumer: Option<u32>,
    /// The trainer that the client names itself.
    pub(super) trainer: Option<&'a str>,
}

/// The reason why a client cannot subscribe.
#[derive(Debug)]
pub(super) struct Denied {
    pub(super) code: RefusalCode,
    pub(super) message: String,
}
