//! Defines the place that a client asks for in a task, and the refusal of a place.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::proto::message::RefusalCode;

/// The consumer and the trainer as which a client reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Role<'a> {
    /// The number of the consumer in the client's ticket.
    pub(super) consumer: Option<u32>,
    /// The name of the trainer in the client's request.
    pub(super) trainer: Option<&'a str>,
}

/// The reason for which a client cannot subscribe.
#[derive(Debug)]
pub(super) struct Denied {
    pub(super) code: RefusalCode,
    pub(super) message: String,
}
