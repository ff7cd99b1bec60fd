//! The endpoint: a socket, an identity, and what quinn makes of them.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use quinn::{AsyncUdpSocket, ServerConfig, TokioRuntime, VarInt};

use super::PathReport;
use super::config::{ConfigError, EndpointConfig};
use super::reset::survive_restarts;
use crate::identity::{BindRefused, Credentials, Revocations, Role, bind_policy};
use crate::socket::{LinkSocket, SocketReport};
use crate::tls::{Identity, TlsSetupError};

/// A UDP socket with QUIC on it. Cheap to clone; the socket closes when the last clone and the last
/// connection are gone.
///
/// Made within a tokio runtime, which then drives it: on a [`Lane`](crate::Lane), that lane's.
#[derive(Clone, Debug)]
pub struct Endpoint {
    quic: quinn::Endpoint,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: EndpointConfig,
    identity: Identity,
    socket: SocketReport,
    local_address: SocketAddr,
    server: Option<ServerConfigs>,
}

/// The settings of accepted connections, by the place of the peer.
#[derive(Clone, Debug)]
struct ServerConfigs {
    loopback: Arc<ServerConfig>,
    network: Arc<ServerConfig>,
}

impl Endpoint {
    /// Binds a server that speaks `alpns` (most preferred first) with peers that prove one of the `accepted`
    /// roles.
    ///
    /// It may also [`connect`](Endpoint::connect), with the same credentials. Connections come from
    /// [`acceptor`](Endpoint::acceptor).
    ///
    /// # Errors
    /// The address is taken, is not this machine's, or is beyond loopback without an explicitly given key;
    /// the settings or credentials do not work.
    pub fn bind_server(
        credentials: Credentials,
        alpns: &[&str],
        accepted: &[Role],
        config: EndpointConfig,
    ) -> Result<Endpoint, BindError> {
        Endpoint::server_with(Identity::new(credentials)?, alpns, accepted, config)
    }

    pub(super) fn server_with(
        identity: Identity,
        alpns: &[&str],
        accepted: &[Role],
        config: EndpointConfig,
    ) -> Result<Endpoint, BindError> {
        let address = config.bind.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
        bind_policy(address, identity.credentials().explicitly_given())?;
        let crypto = identity.server(accepted, alpns)?;
        let server = |peer| {
            let mut server = ServerConfig::with_crypto(crypto.clone());
            server
                .transport_config(config.transport(peer, &config.of_accepted, config.idle_timeout))
                .migration(false)
                .max_incoming(config.handshakes_max)
                // What may wait for a handshake that is not yet accepted: a client's first flight, without
                // 0-RTT.
                .incoming_buffer_size(64 << 10)
                .incoming_buffer_size_total(8 << 20);
            Arc::new(server)
        };
        let loopback = server(Ipv4Addr::LOCALHOST.into());
        let network = server(Ipv4Addr::UNSPECIFIED.into());
        Endpoint::bind(
            address,
            identity,
            Some(ServerConfigs { loopback, network }),
            config,
        )
    }

    /// Binds an endpoint that only connects.
    ///
    /// # Errors
    /// As for [`bind_server`](Endpoint::bind_server), but any address is allowed.
    pub fn client(credentials: Credentials, config: EndpointConfig) -> Result<Endpoint, BindError> {
        Endpoint::client_with(Identity::new(credentials)?, config)
    }

    pub(super) fn client_with(identity: Identity, config: EndpointConfig) -> Result<Endpoint, BindError> {
        if let Some(address) = config.bind {
            return Endpoint::bind(address, identity, None, config);
        }
        let both_families = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        match LinkSocket::bind(both_families, &config.socket()) {
            Ok(socket) => Endpoint::wrap(both_families, socket, identity, None, config),
            // No IPv6 on this machine.
            Err(_) => Endpoint::bind(
                SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
                identity,
                None,
                config,
            ),
        }
    }

    fn bind(
        address: SocketAddr,
        identity: Identity,
        server: Option<ServerConfigs>,
        config: EndpointConfig,
    ) -> Result<Endpoint, BindError> {
        config.validate()?;
        let socket = LinkSocket::bind(address, &config.socket())
            .map_err(|source| BindError::of_socket(address, source))?;
        Endpoint::wrap(address, socket, identity, server, config)
    }

    fn wrap(
        address: SocketAddr,
        (socket, report): (Arc<LinkSocket>, SocketReport),
        identity: Identity,
        server: Option<ServerConfigs>,
        config: EndpointConfig,
    ) -> Result<Endpoint, BindError> {
        config.validate()?;
        let mut quic_config = quinn::EndpointConfig::default();
        quic_config
            .max_udp_payload_size(config.payload_bytes_max())
            .expect("the MTU was checked, and quinn's range is wider");
        let local_address = socket
            .local_addr()
            .map_err(|source| BindError::of_socket(address, source))?;
        if server.is_some() {
            survive_restarts(&mut quic_config, identity.credentials(), local_address);
        }
        let default_server = server.as_ref().map(|server| (*server.network).clone());
        let quic = quinn::Endpoint::new_with_abstract_socket(
            quic_config,
            default_server,
            socket,
            Arc::new(TokioRuntime),
        )
        .map_err(|source| BindError::of_socket(address, source))?;
        let shared = Shared {
            config,
            identity,
            socket: report,
            local_address,
            server,
        };
        Ok(Endpoint {
            quic,
            shared: Arc::new(shared),
        })
    }

    /// The address in use: the one asked for, with the port that was chosen if none was.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.local_address
    }

    /// The role this endpoint acts in.
    pub fn role(&self) -> Role {
        self.shared.identity.credentials().role()
    }

    /// The list of peers that are refused all the same, if there is one.
    pub(super) fn revocations(&self) -> Option<&Arc<Revocations>> {
        self.shared.identity.credentials().revocations()
    }

    /// The settings in use.
    pub fn config(&self) -> &EndpointConfig {
        &self.shared.config
    }

    /// Returns the settings that the kernel granted to the socket.
    pub fn socket_report(&self) -> SocketReport {
        self.shared.socket
    }

    /// The state of a connection of this endpoint, for statistics and benchmarks.
    pub fn path_report(&self, connection: &quinn::Connection) -> PathReport {
        PathReport::of(connection, self.shared.socket)
    }

    /// Returns whether the endpoint accepts connections.
    pub(super) fn is_server(&self) -> bool {
        self.shared.server.is_some()
    }

    /// Closes every connection and accepts no more. Returns at once; peers learn `reason`.
    pub fn close(&self, reason: &str) {
        self.quic.close(VarInt::from_u32(0), reason.as_bytes());
    }

    /// Waits until closed connections have been wound up, so that peers know; at most until the deadline.
    /// Cancel-safe.
    ///
    /// Returns whether all were. [`close`](Endpoint::close) comes first: this closes nothing.
    pub async fn wait_idle(&self, deadline: Duration) -> bool {
        tokio::time::timeout(deadline, self.quic.wait_idle())
            .await
            .is_ok()
    }

    pub(super) fn quic(&self) -> &quinn::Endpoint {
        &self.quic
    }

    pub(super) fn identity(&self) -> &Identity {
        &self.shared.identity
    }

    pub(super) fn server_config_for(&self, peer: SocketAddr) -> Option<Arc<ServerConfig>> {
        let server = self.shared.server.as_ref()?;
        let near = peer.ip().to_canonical().is_loopback();
        Some(Arc::clone(if near { &server.loopback } else { &server.network }))
    }
}

/// Why there is no endpoint.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Beyond loopback only with an explicit key.
    #[error(transparent)]
    Refused(#[from] BindRefused),
    /// A setting cannot work.
    #[error("endpoint setting {0}")]
    Config(#[from] ConfigError),
    /// The credentials cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsSetupError),
    /// Some process listens there already.
    #[error("UDP port {port} is in use on {address}: stop the process that listens there, or choose another port", port = address.port())]
    PortInUse {
        /// The address that was asked for.
        address: SocketAddr,
    },
    /// The address belongs to no interface of this machine.
    #[error("{address} is not an address of this machine: bind to one of its own, or to 127.0.0.1")]
    NotOurs {
        /// The address that was asked for.
        address: SocketAddr,
    },
    /// Ports below 1024 need a privilege.
    #[error("no permission to listen on {address}: ports below 1024 need privileges, choose a higher one")]
    NotPermitted {
        /// The address that was asked for.
        address: SocketAddr,
    },
    /// The system refuses for another reason.
    #[error("cannot open a UDP socket on {address}: {source}")]
    Socket {
        /// The address that was asked for.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
}

impl BindError {
    fn of_socket(address: SocketAddr, source: io::Error) -> BindError {
        let kind = source.kind();
        if kind == io::ErrorKind::AddrInUse {
            BindError::PortInUse { address }
        } else if kind == io::ErrorKind::AddrNotAvailable {
            BindError::NotOurs { address }
        } else if kind == io::ErrorKind::PermissionDenied {
            BindError::NotPermitted { address }
        } else {
            BindError::Socket { address, source }
        }
    }
}
