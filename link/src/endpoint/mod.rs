//! One UDP socket with QUIC on it: how links are made, limited and described.
//!
//! | file | what it owns |
//! |---|---|
//! | `config` | every limit with its default and reason, and their translation for quinn |
//! | `bind` | the [`Endpoint`] itself: binding, closing, reports |
//! | `connect` | the client's side: connect, wait until the server has said yes, or say why not |
//! | `handshakes` | whose handshakes are under way, and which one makes room |
//! | `accept` | the server's side: handshakes with a deadline and a bound, quotas |
//! | `reset` | how a server that comes back ends the connections of its earlier life |
//! | `report` | what a link looks like from outside |

mod accept;
mod bind;
mod config;
mod connect;
mod handshakes;
mod report;
mod reset;
mod revocation;

pub use accept::{AcceptCounter, AcceptCounts, Accepted, Acceptor, CLOSE_OVER_QUOTA, ConnectionPermit};
pub use bind::{BindError, Endpoint};
pub use config::{ConfigError, EndpointConfig, PeerLimits};
pub use connect::{ConnectError, RefusalReason};
pub use report::PathReport;

#[cfg(test)]
mod tests;
