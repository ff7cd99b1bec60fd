//! A model of the exactly-once protocol (C16), of which a checker visits every reachable state.
//!
//! The reader of the model is the real [`Sequence`], and its saved states are the bytes of the real
//! [`Place`].
//! Tasks and dispatcher are small copies of sections C5, C6 and C16 of the protocol.
//!
//! - A message that was sent and has not arrived equals one that is not sent yet. Therefore a task sends an
//!   element when the element arrives, and each step waits arbitrarily long.
//! - A worker that died and one that was suspected differ only in the elements that still arrive. The model
//!   lets any number of them arrive, so one step stands for both.
//! - A removed worker registers again, and gets another task at once. A task that has requested nothing
//!   equals a worker that has not registered.
//! - What an old job does between the saved state and the trainer's end is forgotten. So a trainer that stops
//!   right after it saved its state stands for one that stops later.
//! - Each step consumes something, so no run visits a state twice, and each run ends.
//!
//! - `epoch`: the splits of an epoch, and the plan that a trainer must receive
//! - `protocol`: the states and steps
//! - `tests`: the runs of the checker

mod epoch;
mod protocol;
mod tests;
