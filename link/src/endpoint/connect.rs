//! The client's side of connections: a connection that the server has accepted, or an error that states what
//! to do.

use std::net::SocketAddr;
use std::time::Duration;

use quinn::{ClientConfig, Connection, ConnectionError};

use super::Endpoint;
use super::accept::CLOSE_OVER_QUOTA;
use crate::identity::{KeyOrigin, Role};
use crate::tls::TlsSetupError;

/// The TLS alerts (RFC 8446, section 6) with which this crate's verifiers and rustls answer.
const ALERT_UNKNOWN_CA: u64 = 48;
const ALERT_CERTIFICATE_REVOKED: u64 = 44;
const ALERT_ACCESS_DENIED: u64 = 49;
const ALERT_NO_APPLICATION_PROTOCOL: u64 = 120;
/// The base of QUIC error codes for TLS alerts: the code is the base plus the alert's number (RFC 9001,
/// section 4.8).
const CRYPTO_ERROR_BASE: u64 = 0x100;
/// The QUIC error code of a server that accepts no connection now (RFC 9000, section 20.1).
const CONNECTION_REFUSED: u64 = 0x2;

/// The time until the first check for the server's confirmation, which takes one round trip.
const CONFIRMATION_POLL_MIN: Duration = Duration::from_millis(1);
/// The longest time between two checks for the server's confirmation. An overloaded server takes seconds, and
/// rare checks add little load.
const CONFIRMATION_POLL_MAX: Duration = Duration::from_millis(50);

impl Endpoint {
    /// Connects to a server that must prove the role `expected` and support the protocol `alpn`.
    ///
    /// Returns after the server has accepted this endpoint's certificate too. In TLS 1.3 the acceptance
    /// arrives one round trip after the client's own handshake is complete. Gives up at the deadline.
    /// Cancel-safe: dropping the future closes the attempt.
    ///
    /// # Errors
    /// Returns a [`ConnectError`], which names the address and states what to do.
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

    /// Connects like [`Endpoint::connect`]. The connection is lost after `idle_timeout` of silence, or
    /// earlier if the server requires a shorter time.
    ///
    /// Cancel-safe: dropping the future closes the attempt.
    ///
    /// # Errors
    /// Returns a [`ConnectError`], which names the address and states what to do.
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
            key: self.identity().credentials().origin(),
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

/// Waits for the server's HANDSHAKE_DONE frame, which follows the acceptance of the client's certificate.
///
/// quinn provides only a count of HANDSHAKE_DONE frames, not an event. Therefore the function checks the
/// count repeatedly until the connection ends.
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

/// The facts about an attempt that its errors name.
#[derive(Clone, Copy)]
struct Attempt<'a> {
    address: SocketAddr,
    expected: Role,
    ours: Role,
    key: &'a KeyOrigin,
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
            // This side refused the server's certificate.
            ConnectionError::TransportError(ref ours) => match alert(ours.code.into()) {
                Some(ALERT_UNKNOWN_CA) => ConnectError::Untrusted {
                    address: self.address,
                    expected: self.expected,
                    key: self.key.clone(),
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
            // The server refused this side.
            ConnectionError::ConnectionClosed(ref theirs) => match alert(theirs.error_code.into()) {
                Some(ALERT_UNKNOWN_CA) => self.refused(RefusalReason::UnknownKey {
                    key: self.key.clone(),
                }),
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

/// Returns the TLS alert in a QUIC error code, if it is one.
fn alert(code: u64) -> Option<u64> {
    code.checked_sub(CRYPTO_ERROR_BASE).filter(|alert| *alert < 0x100)
}

/// The reason for a failed connection, by the party that must act.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The server's certificate belongs to another cluster.
    #[error(
        "{address} does not hold this cluster's key: check that the address is this cluster's {expected}, and that \
         both sides were given the same key (--key FILE or MILLSTREAM_KEY){key}"
    )]
    Untrusted {
        /// The address of the server.
        address: SocketAddr,
        /// The expected role.
        expected: Role,
        /// The origin of this side's key.
        key: KeyOrigin,
    },
    /// The server belongs to this cluster, but has another role.
    #[error("{address} is of this cluster but is not a {expected}: check the address")]
    WrongRole {
        /// The address of the server.
        address: SocketAddr,
        /// The expected role.
        expected: Role,
    },
    /// The server's certificate or key is revoked.
    #[error(
        "the key of the {expected} at {address} is revoked: do not trust the process at this address, and give the {expected} a new key"
    )]
    Revoked {
        /// The address of the server.
        address: SocketAddr,
        /// The expected role.
        expected: Role,
    },
    /// The server refused the connection.
    #[error("{address} refused the connection: {reason}")]
    Refused {
        /// The address of the server.
        address: SocketAddr,
        /// The reason for the refusal, and what to do.
        reason: RefusalReason,
    },
    /// The server does not support the requested protocol.
    #[error("{address} does not support `{alpn}`: run the same version of Millstream on both sides")]
    Version {
        /// The address of the server.
        address: SocketAddr,
        /// The requested protocol.
        alpn: String,
    },
    /// The server did not answer.
    #[error(
        "no answer from {address} within {deadline_ms} ms: check that a {expected} runs there and that UDP can reach it"
    )]
    TimedOut {
        /// The address of the server.
        address: SocketAddr,
        /// The expected role.
        expected: Role,
        /// The time waited, in milliseconds.
        deadline_ms: u128,
    },
    /// This socket cannot send packets to the address.
    #[error("cannot reach {address} from this endpoint: {reason}")]
    Unreachable {
        /// The address of the server.
        address: SocketAddr,
        /// The reason of the failure.
        reason: String,
    },
    /// This endpoint was closed.
    #[error("the connection to {address} was given up because this endpoint is closing")]
    EndpointClosed {
        /// The address of the server.
        address: SocketAddr,
    },
    /// The credentials of this side cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsSetupError),
    /// The connection failed for another reason.
    #[error("the connection to {address} failed: {source}")]
    Failed {
        /// The address of the server.
        address: SocketAddr,
        /// The error of quinn.
        source: ConnectionError,
    },
}

/// The reason for which a server refused, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RefusalReason {
    /// Our certificate belongs to another cluster.
    #[error(
        "the server does not know our key; give both sides the same key (--key FILE or MILLSTREAM_KEY){key}"
    )]
    UnknownKey {
        /// The origin of this side's key.
        key: KeyOrigin,
    },
    /// The server knows our key, but does not admit our role.
    #[error("the server admits no `{role}`, or our certificate claims a role that its key does not prove")]
    RoleNotAdmitted {
        /// The role in which we connected.
        role: Role,
    },
    /// The operator has revoked our certificate or key.
    #[error("the operator has revoked our key or certificate: ask for a new key")]
    Revoked,
    /// The server has the maximum number of handshakes in progress.
    #[error("the server is busy or shutting down; try again")]
    Busy,
    /// The server has the maximum number of connections, with us or in total.
    #[error("{reason}")]
    Full {
        /// The exhausted quota.
        reason: String,
    },
    /// The application of the server closed the connection.
    #[error("{reason}")]
    Closed {
        /// The reason that the server sent.
        reason: String,
    },
}
