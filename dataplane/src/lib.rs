//! How elements move from workers to clients: exactly as many as were granted, in order, without loss while
//! both processes live. `PROTOCOL.md` beside this crate has the rules.
//!
//! - [`proto`]: the pure protocol: messages, the credit account, both halves of a subscription
//! - [`transport`]: how frames cross: in memory, over QUIC
//! - [`worker`]: the serving side: task buffers and sessions
//! - [`linger`]: how long a thread looks for something before it sleeps
//!
//! Knows elements and links. Refuses to know jobs, splits and datasets: it sees tickets and task numbers.

#[cfg(test)]
mod fuzz;
pub mod linger;
pub mod proto;
pub mod transport;
pub mod worker;

pub use proto::message::TaskId;
