//! The data plane's protocol without I/O: which messages exist, what a side may send, and what a side must
//! keep. `PROTOCOL.md` lists the rules by number.
//!
//! - [`message`] defines the messages and their encoding.
//! - [`credit`] keeps the credit account of one subscription, at both ends.
//! - [`send`] is the worker's half of a subscription.
//! - [`receive`] is the client's half of a subscription.
//! - [`release`] computes which groups of a coordinated read have reached every consumer.
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
