//! The outcome of a request, which the part that carries requests out returns to the part that answers.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::action::Reply;
use super::record::Answer;

/// The outcome of a request that was carried out.
pub(super) enum Outcome {
    /// An answer that is sent and, if the request is numbered, remembered.
    Answer(Answer),
    /// An answer that only reads the state, and is never remembered.
    Reply(Reply),
    /// An answer that follows later.
    Later,
}
