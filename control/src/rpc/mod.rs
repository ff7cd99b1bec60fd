//! The control protocol over QUIC: its messages, the dispatcher's server, and the processes that connect to
//! the server.
//!
//! | module | contents |
//! |---|---|
//! | `wire` | the wire types of messages, separate from the domain's types; the conversions check every
//! field |
//! | `frame` | the boundaries of messages, and the limits of their sizes |
//! | `server` | the shell around the dispatcher: connections, the event loop, the store |
//! | `session` | a process's relation with the dispatcher, across reconnections |
//! | `client` | a trainer's requests, and the messages that its iterations receive |

pub(crate) mod client;
mod frame;
mod server;
pub(crate) mod session;
pub(crate) mod wire;

pub use client::{Attachment, Client, DatasetInfo, IterationHandle, IterationReporter, Told};
pub use server::{AuditLog, Observed, Server, ServerConfig, ServerObserver, ServerStopper, StartError};
pub use session::{Contact, NOT_LEADING, Numbers, SessionConfig};
pub use wire::ALPN;

/// The number of idle timeouts of the endpoint after which a connection of the control plane is lost.
/// Closed ports and heartbeats show earlier that the peer is gone. An overloaded process must not spend its
/// time on new handshakes.
const IDLE_TIMEOUTS: u32 = 6;
