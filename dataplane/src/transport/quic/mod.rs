//! The link between hosts: messages on one bidirectional stream, each pack on a stream of its own (D2).
//!
//! - [`frame`]: the bytes of a pack
//! - `control`: the stream of messages
//! - `close`: the last word on a link, said and heard
//! - `worker`: the worker's end
//! - `client`: the client's end
//!
//! Both ends are driven by tasks of the runtime they are made on, which ends with them.

mod client;
mod close;
mod control;
pub mod frame;
mod report;
mod worker;

pub use client::connect;
pub use report::PathReporter;
pub use worker::accept;

/// The protocol's name in TLS (D1.1).
pub const ALPN: &[u8] = b"millstream-data/1";
