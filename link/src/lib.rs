//! Links between two processes: identity, TLS, sockets and lanes.
//!
//! A *link* is an authenticated, encrypted QUIC connection between two processes, each of which has proved a
//! [`Role`]. No plaintext mode exists, and no setting enables one. Datasets, elements and messages are
//! unknown to this crate.
//!
//! | module | what it owns |
//! |---|---|
//! | [`identity`] | the cluster key, the role keys derived from it, the files of keys, and the addresses that a server may bind |
//! | [`tls`] | certificates and their verification; [`peer_role`] |
//! | [`endpoint`] | one UDP socket with QUIC on it: connect, accept, limits, reports |
//! | [`lane`] | one I/O thread with its runtime, joined by its owner |
//! | [`ticket`] | opaque, signed permissions that one process mints and another verifies |
//! | [`address`], [`addresses`] | addresses such as `millstream://host:port`, and lists of them |
//! | `socket`, `congestion` | the UDP socket under quinn with its buffers, and the cap of the congestion window |

pub mod address;
pub mod addresses;
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
pub use addresses::HostPorts;
pub use endpoint::{
    AcceptCounter, AcceptCounts, Accepted, Acceptor, BindError, CLOSE_OVER_QUOTA, ConfigError, ConnectError,
    ConnectionPermit, Endpoint, EndpointConfig, PathReport, PeerLimits, RefusalReason,
};
pub use identity::{
    BindRefused, ClusterKey, Credentials, CredentialsError, KeyError, KeyMaterial, KeyOrigin, KeyRing,
    KeySource, KeyTextError, LoadedKey, PublicKeys, Revocations, RevocationsError, Role, RoleKey,
    bind_policy,
};
pub use lane::{Lane, LaneError, LaneTask};
pub use socket::{SocketReport, probe_buffers};
pub use ticket::{Claims, Ticket, TicketError, TicketKey};
pub use tls::{TlsSetupError, peer_role};
