//! The endpoint: a socket, an identity, and QUIC on the socket.

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

/// A UDP socket with QUIC. Clones are cheap; the socket closes with the last clone and the last connection.
///
/// An endpoint must be made within a tokio runtime, which then drives it. On a [`Lane`](crate::Lane), that is
/// the lane's runtime.
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

/// The settings of accepted connections, for peers on loopback and on the network.
#[derive(Clone, Debug)]
struct ServerConfigs {
    loopback: Arc<ServerConfig>,
    network: Arc<ServerConfig>,
}

impl Endpoint {
    /// Binds a server that offers `alpns` (most preferred first) to peers that prove one of the `accepted`
    /// roles.
    ///
    /// The server can also [`connect`](Endpoint::connect), with the same credentials. An
    /// [`acceptor`](Endpoint::acceptor) yields the connections of clients.
    ///
    /// # Errors
    /// Returns an error if the address is in use, is not an address of this machine, or is beyond loopback
    /// without an explicit key. Returns an error for invalid settings or credentials, too.
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
                // The buffers hold the first packets of a client before its handshake is accepted. Without
                // 0-RTT, the first packets of a client are its first flight.
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
    /// Returns the errors of [`bind_server`](Endpoint::bind_server), but any address is allowed.
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
            // This machine has no IPv6.
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

    /// Returns the local address. If the requested port was 0, the address contains the port that the system
    /// chose.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.local_address
    }

    /// Returns the role of this endpoint.
    pub fn role(&self) -> Role {
        self.shared.identity.credentials().role()
    }

    /// Returns the list of revoked certificates and keys, if the endpoint has one.
    pub(super) fn revocations(&self) -> Option<&Arc<Revocations>> {
        self.shared.identity.credentials().revocations()
    }

    /// Returns the settings of the endpoint.
    pub fn config(&self) -> &EndpointConfig {
        &self.shared.config
    }

    /// Returns the settings that the kernel granted to the socket.
    pub fn socket_report(&self) -> SocketReport {
        self.shared.socket
    }

    /// Returns the state of a connection of this endpoint, for statistics and benchmarks.
    pub fn path_report(&self, connection: &quinn::Connection) -> PathReport {
        PathReport::of(connection, self.shared.socket)
    }

    /// Returns whether the endpoint accepts connections.
    pub(super) fn is_server(&self) -> bool {
        self.shared.server.is_some()
    }

    /// Closes all connections and accepts no more. Returns at once; the peers receive `reason`.
    pub fn close(&self, reason: &str) {
        self.quic.close(VarInt::from_u32(0), reason.as_bytes());
    }

    /// Waits until the peers of closed connections have been informed, for at most `deadline`. Cancel-safe.
    ///
    /// Returns whether all peers were informed. The caller must call [`close`](Endpoint::close) before,
    /// because this method closes no connection.
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

/// The reason for which an endpoint could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address is beyond loopback, and the key was not given explicitly.
    #[error(transparent)]
    Refused(#[from] BindRefused),
    /// A setting is invalid.
    #[error("endpoint setting {0}")]
    Config(#[from] ConfigError),
    /// The credentials cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsSetupError),
    /// Another process already listens on the port.
    #[error("UDP port {port} is in use on {address}: stop the process that listens there, or choose another port", port = address.port())]
    PortInUse {
        /// The requested address.
        address: SocketAddr,
    },
    /// The address belongs to no interface of this machine.
    #[error("{address} is not an address of this machine: bind to one of its own, or to 127.0.0.1")]
    NotOurs {
        /// The requested address.
        address: SocketAddr,
    },
    /// The port is below 1024, which requires a privilege.
    #[error("no permission to listen on {address}: ports below 1024 need privileges, choose a higher one")]
    NotPermitted {
        /// The requested address.
        address: SocketAddr,
    },
    /// The system refused to open the socket for another reason.
    #[error("cannot open a UDP socket on {address}: {source}")]
    Socket {
        /// The requested address.
        address: SocketAddr,
        /// The error of the system.
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
