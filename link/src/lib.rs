//! Links between two processes: identity, TLS, sockets, lanes.
//!
//! A *link* is an authenticated, encrypted QUIC connection of two processes, each of which has proved one
//! [`Role`]. There is no plaintext mode and no way to ask for one. This crate knows nothing of datasets,
//! elements or messages.
//!
//! | module | what it owns |
//! |---|---|
//! | [`identity`] | the cluster key, the role keys derived from it, where they are stored, and where a server may bind |
//! | [`tls`] | certificates and their verification; [`peer_role`] |
//! | [`endpoint`] | one UDP socket with QUIC on it: connect, accept, limits, reports |
//! | [`lane`] | one I/O thread with its runtime, joined by its owner |
//! | [`ticket`] | opaque permission slips that one process mints and another verifies |
//! | [`address`] | `millstream://host:port` and its relatives |
//! | `socket`, `congestion` | what quinn sits on: batches the kernel accepts, buffers that hold them, a window that fits |

pub mod address;
mod congestion;
pub mod endpoint;
#[cfg(test)]
mod fuzz;
pub mod identity;
pub mod lane;
mod socket;
pub mod ticket;
pub mod tls;

pub use address::{AddressError, HostPort, ResolveError};
pub use endpoint::{
    AcceptCounter, AcceptCounts, Accepted, Acceptor, BindError, CLOSE_OVER_QUOTA, ConfigError, ConnectError,
    ConnectionPermit, Endpoint, EndpointConfig, PathReport, PeerLimits, RefusalReason,
};
pub use identity::{
    BindRefused, ClusterKey, Credentials, CredentialsError, KeyError, KeyMaterial, KeyRing, KeySource,
    KeyTextError, LoadedKey, PublicKeys, Revocations, RevocationsError, Role, RoleKey, bind_policy,
};
pub use lane::{Lane, LaneError, LaneTask};
pub use socket::SocketReport;
pub use ticket::{Claims, Ticket, TicketError, TicketKey};
pub use tls::{TlsSetupError, peer_role};
