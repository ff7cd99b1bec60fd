//! The protocol, without I/O: what is said, what may be sent, what must be kept. `PROTOCOL.md` has the rules
//! by number.
//!
//! - [`message`]: the vocabulary and its encoding
//! - [`credit`]: the account of one subscription, both ends
//! - [`send`]: the worker's half of a subscription
//! - [`receive`]: the client's half
//! - [`release`]: which groups of a coordinated read every consumer has
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod credit;
pub mod message;
pub mod receive;
pub mod release;
pub mod send;

#[cfg(test)]
mod coordinated;
#[cfg(test)]
mod lies;
#[cfg(test)]
mod simulation;
