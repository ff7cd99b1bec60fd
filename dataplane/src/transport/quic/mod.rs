//! The link between hosts: messages use one bidirectional stream, and each pack uses a stream of its own
//! (D2).
//!
//! - [`frame`] encodes and decodes the bytes of a pack.
//! - `control` reads and writes the stream of messages.
//! - `close` translates between the reasons for closing a link and QUIC's close codes.
//! - `worker` is the worker's end of the link.
//! - `client` is the client's end of the link.
//!
//! Tasks of the runtime on which a link was made drive its two ends. When the runtime ends, the link ends as
//! well.

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

/// The name of the protocol in the TLS handshake (D1.1).
pub const ALPN: &[u8] = b"millstream-data/1";

/// The limits for a client that sends to a worker (see
/// [`EndpointConfig::of_accepted`](millstream_link::EndpointConfig)). A client has one stream of messages,
/// with room for two messages of maximum length. A worker reads nothing else from a client (D2.1).
pub const CLIENT_LIMITS: PeerLimits = PeerLimits {
    stream_window_bytes: 2 * MESSAGE_BYTES_MAX as u32,
    connection_window_bytes: 2 * MESSAGE_BYTES_MAX as u32,
    uni_streams_max: 0,
    bidi_streams_max: 1,
};
