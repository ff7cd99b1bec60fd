//! The control protocol over QUIC: messages, the dispatcher's server, and the processes that talk to it.
//!
//! | module | what it owns |
//! |---|---|
//! | `wire` | messages as they travel, apart from what they mean; conversions check them |
//! | `frame` | where a message begins and ends, and how large it may be |
//! | `server` | the shell around the dispatcher: connections, the loop, the store |
//! | `session` | a process' relation with the dispatcher, across reconnections |
//! | `client` | what a trainer asks for, and what its iterations are told |

pub(crate) mod client;
mod frame;
mod server;
pub(crate) mod session;
pub(crate) mod wire;

pub use client::{Client, DatasetInfo, IterationHandle, IterationReporter, Told};
pub use server::{AuditLog, Server, ServerConfig, ServerStopper, StartError};
pub use session::{Contact, Numbers, SessionConfig};
pub use wire::ALPN;

/// A connection of the control plane is lost after this many idle timeouts of its endpoint. Closed ports and
/// heartbeats tell earlier that the other side is gone, and an overloaded process must not spend its time on
/// new handshakes.
const IDLE_TIMEOUTS: u32 = 6;
