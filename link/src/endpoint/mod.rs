//! A UDP socket with QUIC: links are made, limited and reported here.
//!
//! | file | what it owns |
//! |---|---|
//! | `config` | every limit with its default and reason, and their translation for quinn |
//! | `bind` | the [`Endpoint`] itself: binding, closing, reports |
//! | `connect` | the client's side: it connects and waits for the server's acceptance, or explains the failure |
//! | `handshakes` | the handshakes in progress, and the choice of the handshake to evict |
//! | `accept` | the server's side: handshakes with a deadline and a bound, quotas |
//! | `reset` | the stateless resets with which a restarted server ends the connections of its earlier process |
//! | `report` | the properties of a connection, for statistics |

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
