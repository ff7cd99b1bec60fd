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

use millstream_link::PeerLimits;

use crate::proto::message::MESSAGE_BYTES_MAX;

/// The protocol's name in TLS (D1.1).
pub const ALPN: &[u8] = b"millstream-data/1";

/// The bytes and streams that a worker lets a client send ahead (see
/// [`EndpointConfig::of_accepted`](millstream_link::EndpointConfig)): one stream of messages, of which two of
/// the longest fit. A worker reads nothing else from a client (D2.1).
pub const CLIENT_LIMITS: PeerLimits = PeerLimits {
    stream_window_bytes: 2 * MESSAGE_BYTES_MAX as u32,
    connection_window_bytes: 2 * MESSAGE_BYTES_MAX as u32,
    uni_streams_max: 0,
    bidi_streams_max: 1,
};
