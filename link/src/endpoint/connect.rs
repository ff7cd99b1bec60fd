//! The client's side: a connection that the server has accepted, or a reason that says what to do.

use std::net::SocketAddr;
use std::time::Duration;

use quinn::{ClientConfig, Connection, ConnectionError};

use super::Endpoint;
use super::accept::CLOSE_OVER_QUOTA;
use crate::identity::Role;
use crate::tls::TlsSetupError;

/// TLS alerts (RFC 8446, section 6) that this crate's verifiers and rustls answer with.
const ALERT_UNKNOWN_CA: u64 = 48;
const ALERT_CERTIFICATE_REVOKED: u64 = 44;
const ALERT_ACCESS_DENIED: u64 = 49;
const ALERT_NO_APPLICATION_PROTOCOL: u64 = 120;
/// QUIC carries a TLS alert as this plus its number (RFC 9001, section 4.8).
const CRYPTO_ERROR_BASE: u64 = 0x100;
/// QUIC's code of a server that wants no connection now (RFC 9000, section 20.1).
const CONNECTION_REFUSED: u64 = 0x2;

/// The server's confirmation takes one round trip, and is looked for after this.
const CONFIRMATION_POLL_MIN: Duration = Duration::from_millis(1);
/// An overloaded server takes seconds. Looks for its confirmation become as seldom as this, so that those who
/// wait do not add to the load.
const CONFIRMATION_POLL_MAX: Duration = Duration::from_millis(50);

impl Endpoint {
    /// Connects to a server that must prove `expected` and speak `alpn`.
    ///
    /// Returns once the server has accepted this endpoint's certificate as well. In TLS 1.3 that is one round
    /// trip after the client's own side is complete: a connection returned from here was not refused. Gives
    /// up at the deadline. Cancel-safe: dropping the future closes the attempt.
    ///
    /// # Errors
    /// [`ConnectError`] names the address and what to do.
    pub async fn connect(
        &self,
        address: SocketAddr,
        expected: Role,
        alpn: &str,
        deadline: Duration,
    ) -> Result<Connection, ConnectError> {
        let idle_timeout = self.config().idle_timeout;
        self.connect_patiently(address, (expected, alpn), deadline, idle_timeout)
            .await
    }

    /// Connects as [`Endpoint::connect`] does; the connection is lost after `idle_timeout` of silence, or
    /// earlier if the server says so.
    ///
    /// Cancel-safe: dropping the future closes the attempt.
    ///
    /// # Errors
    /// [`ConnectError`] names the address and what to do.
    pub async fn connect_patiently(
        &self,
        address: SocketAddr,
        (expected, alpn): (Role, &str),
        deadline: Duration,
        idle_timeout: Duration,
    ) -> Result<Connection, ConnectError> {
        let attempt = Attempt {
            address,
            expected,
            ours: self.role(),
            alpn,
        };
        let mut client = ClientConfig::new(self.identity().client(expected, alpn)?);
        let config = self.config();
        client.transport_config(config.transport(address.ip(), &config.of_connected, idle_timeout));
        let connecting = self
            .quic()
            .connect_with(client, address, expected.dns_name())
            .map_err(|source| attempt.not_started(source))?;
        let accepted = async {
            let connection = connecting.await?;
            confirmed(&connection).await?;
            Ok(connection)
        };
        match tokio::time::timeout(deadline, accepted).await {
            Ok(result) => result.map_err(|error| attempt.explain(error, deadline)),
            Err(_) => Err(attempt.timed_out(deadline)),
        }
    }
}

/// Waits for the server's HANDSHAKE_DONE, which follows its acceptance of our certificate.
///
/// quinn has no event for it, only the count of such frames; so this looks, until the connection ends one way
/// or another.
async fn confirmed(connection: &Connection) -> Result<(), ConnectionError> {
    let mut pause = CONFIRMATION_POLL_MIN;
    loop {
        if connection.stats().frame_rx.handshake_done > 0 {
            return Ok(());
        }
        if let Ok(reason) = tokio::time::timeout(pause, connection.closed()).await {
            return Err(reason);
        }
        pause = (pause * 2).min(CONFIRMATION_POLL_MAX);
    }
}

/// The facts that an error names.
#[derive(Clone, Copy)]
struct Attempt<'a> {
    address: SocketAddr,
    expected: Role,
    ours: Role,
    alpn: &'a str,
}

impl Attempt<'_> {
    fn not_started(self, source: quinn::ConnectError) -> ConnectError {
        use quinn::ConnectError as Quic;
        match source {
            Quic::EndpointStopping => ConnectError::EndpointClosed {
                address: self.address,
            },
            Quic::InvalidRemoteAddress(_)
            | Quic::CidsExhausted
            | Quic::InvalidServerName(_)
            | Quic::NoDefaultClientConfig
            | Quic::UnsupportedVersion => ConnectError::Unreachable {
                address: self.address,
                reason: source.to_string(),
            },
        }
    }

    fn timed_out(self, deadline: Duration) -> ConnectError {
        let deadline_ms = deadline.as_millis();
        ConnectError::TimedOut {
            address: self.address,
            expected: self.expected,
            deadline_ms,
        }
    }

    fn explain(self, error: ConnectionError, deadline: Duration) -> ConnectError {
        match error {
            // Our own verdict on the server.
            ConnectionError::TransportError(ref ours) => match alert(ours.code.into()) {
                Some(ALERT_UNKNOWN_CA) => ConnectError::Untrusted {
                    address: self.address,
                    expected: self.expected,
                },
                Some(ALERT_CERTIFICATE_REVOKED) => ConnectError::Revoked {
                    address: self.address,
                    expected: self.expected,
                },
                Some(ALERT_ACCESS_DENIED) => ConnectError::WrongRole {
                    address: self.address,
                    expected: self.expected,
                },
                Some(ALERT_NO_APPLICATION_PROTOCOL) => self.version(),
                Some(_) | None => ConnectError::Failed {
                    address: self.address,
                    source: error,
                },
            },
            // The server's verdict on us.
            ConnectionError::ConnectionClosed(ref theirs) => match alert(theirs.error_code.into()) {
                Some(ALERT_UNKNOWN_CA) => self.refused(RefusalReason::UnknownKey),
                Some(ALERT_ACCESS_DENIED) => self.refused(RefusalReason::RoleNotAdmitted { role: self.ours }),
                Some(ALERT_CERTIFICATE_REVOKED) => self.refused(RefusalReason::Revoked),
                Some(ALERT_NO_APPLICATION_PROTOCOL) => self.version(),
                None if u64::from(theirs.error_code) == CONNECTION_REFUSED => {
                    self.refused(RefusalReason::Busy)
                }
                Some(_) | None => ConnectError::Failed {
                    address: self.address,
                    source: error,
                },
            },
            ConnectionError::ApplicationClosed(ref close) => {
                let reason = String::from_utf8_lossy(&close.reason).into_owned();
                let is_full = close.error_code.into_inner() == u64::from(CLOSE_OVER_QUOTA);
                self.refused(if is_full {
                    RefusalReason::Full { reason }
                } else {
                    RefusalReason::Closed { reason }
                })
            }
            ConnectionError::TimedOut => self.timed_out(deadline),
            ConnectionError::VersionMismatch => self.version(),
            ConnectionError::LocallyClosed => ConnectError::EndpointClosed {
                address: self.address,
            },
            ConnectionError::Reset | ConnectionError::CidsExhausted => ConnectError::Failed {
                address: self.address,
                source: error,
            },
        }
    }

    fn refused(self, reason: RefusalReason) -> ConnectError {
        ConnectError::Refused {
            address: self.address,
            reason,
        }
    }

    fn version(self) -> ConnectError {
        ConnectError::Version {
            address: self.address,
            alpn: self.alpn.to_owned(),
        }
    }
}

/// The TLS alert in a QUIC error code.
fn alert(code: u64) -> Option<u64> {
    code.checked_sub(CRYPTO_ERROR_BASE).filter(|alert| *alert < 0x100)
}

/// Why there is no connection, grouped by who must act.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The server's certificate is of another cluster.
    #[error(
        "{address} does not hold this cluster's key: check that the address is this cluster's {expected}, and that \
         both sides were given the same key (--key FILE or MILLSTREAM_KEY)"
    )]
    Untrusted {
        /// The server.
        address: SocketAddr,
        /// The expected role.
        expected: Role,
    },
    /// The server is of this cluster, in another role.
    #[error("{address} is of this cluster but is not a {expected}: check the address")]
    WrongRole {
        /// The server.
        address: SocketAddr,
        /// The expected role.
        expected: Role,
    },
    /// The server's certificate or key is revoked.
    #[error(
        "the key of the {expected} at {address} is revoked: do not trust what runs there, and give the {expected} a new key"
    )]
    Revoked {
        /// The server.
        address: SocketAddr,
        /// The expected role.
        expected: Role,
    },
    /// The server wants no connection with us.
    #[error("{address} refused the connection: {reason}")]
    Refused {
        /// The server.
        address: SocketAddr,
        /// Why, and what to do.
        reason: RefusalReason,
    },
    /// The server speaks, but not this protocol.
    #[error("{address} does not speak `{alpn}`: the versions of Millstream on both sides differ too much")]
    Version {
        /// The server.
        address: SocketAddr,
        /// The protocol that was asked for.
        alpn: String,
    },
    /// There was no answer.
    #[error(
        "no answer from {address} within {deadline_ms} ms: check that a {expected} runs there and that UDP can reach it"
    )]
    TimedOut {
        /// The server.
        address: SocketAddr,
        /// The expected role.
        expected: Role,
        /// The time that was waited, in milliseconds.
        deadline_ms: u128,
    },
    /// No packet can be sent there from this socket.
    #[error("cannot reach {address} from this endpoint: {reason}")]
    Unreachable {
        /// The server.
        address: SocketAddr,
        /// The obstacle.
        reason: String,
    },
    /// This endpoint was closed.
    #[error("the connection to {address} was given up because this endpoint is closing")]
    EndpointClosed {
        /// The server.
        address: SocketAddr,
    },
    /// This side's credentials cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsSetupError),
    /// Something else went wrong on the way.
    #[error("the connection to {address} failed: {source}")]
    Failed {
        /// The server.
        address: SocketAddr,
        /// quinn's account.
        source: ConnectionError,
    },
}

/// Why a server refused, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefusalReason {
    /// Our certificate is of another cluster.
    #[error("it does not know our key; give both sides the same key (--key FILE or MILLSTREAM_KEY)")]
    UnknownKey,
    /// Our key is good, but not for this.
    #[error("it admits no `{role}` there, or our certificate claims a role that its key does not prove")]
    RoleNotAdmitted {
        /// The role we acted in.
        role: Role,
    },
    /// The operator has revoked our certificate or key.
    #[error("the operator has revoked our key or certificate: ask for a new key")]
    Revoked,
    /// The server has all the handshakes it can handle.
    #[error("it is busy or ending; try again")]
    Busy,
    /// The server has as many connections as it takes, of us or in all.
    #[error("{reason}")]
    Full {
        /// The quota that is used up.
        reason: String,
    },
    /// The server's application said so.
    #[error("{reason}")]
    Closed {
        /// In its own words.
        reason: String,
    },
}
