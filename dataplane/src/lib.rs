//! Transfers elements from workers to clients under credits. A worker sends at most as many elements as the
//! client granted, in order, and loses none while both processes live. The rules are listed in `PROTOCOL.md`
//! in this crate.
//!
//! - [`proto`] is the pure protocol: the messages, the credit account and both halves of a subscription.
//! - [`transport`] carries packs and messages between the processes: in memory, through shared memory or over
//!   QUIC.
//! - [`worker`] is the serving side: the buffers of tasks and the sessions of clients.
//! - [`linger`] decides how long a thread spins before it sleeps.
//!
//! The crate depends on elements and links. Jobs, splits and datasets are unknown to this crate, which sees
//! tickets and task numbers only.

#[cfg(test)]
mod fuzz;
pub mod linger;
pub mod proto;
pub mod transport;
pub mod worker;

pub use proto::message::TaskId;
