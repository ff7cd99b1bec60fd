//! The outcome of a request, between the part of the dispatcher that carries it out and the part that
//! answers.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::action::Reply;
use super::record::Answer;

/// The outcome of a request that is carried out.
pub(super) enum Outcome {
    /// Answered and, if the request is numbered, remembered.
    Answer(Answer),
    /// Answered with something that is read, not changed.
    Reply(Reply),
    /// The answer comes later.
    Later,
}
