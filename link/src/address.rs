//! Parses and resolves addresses as people write them: `millstream://host:port`, `grpc://host:port` or
//! `host:port`.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

/// An address of a host (a name or an IP address, IPv6 without brackets) and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    host: String,
    port: u16,
}

impl HostPort {
    /// Returns the host: a name, an IPv4 address, or an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns all socket addresses of the host, in the resolver's order. The result has at least one
    /// address.
    ///
    /// Cancel-safe. The call waits for the system's resolver, which runs on tokio's blocking threads.
    ///
    /// # Errors
    /// Returns an error if the name is unknown, or if the resolver does not answer within `deadline`.
    pub async fn resolve(&self, deadline: Duration) -> Result<Vec<SocketAddr>, ResolveError> {
        if let Ok(ip) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, self.port)]);
        }
        let lookup = tokio::net::lookup_host((self.host.as_str(), self.port));
        let found: Vec<SocketAddr> = match tokio::time::timeout(deadline, lookup).await {
            Ok(Ok(found)) => found.collect(),
            Ok(Err(source)) => {
                return Err(ResolveError::Unknown {
                    host: self.host.clone(),
                    source,
                });
            }
            Err(_) => {
                let deadline_ms = deadline.as_millis();
                return Err(ResolveError::TimedOut {
                    host: self.host.clone(),
                    deadline_ms,
                });
            }
        };
        if found.is_empty() {
            let source = io::Error::from(io::ErrorKind::NotFound);
            return Err(ResolveError::Unknown {
                host: self.host.clone(),
                source,
            });
        }
        Ok(found)
    }
}

impl From<SocketAddr> for HostPort {
    fn from(address: SocketAddr) -> HostPort {
        HostPort {
            host: address.ip().to_string(),
            port: address.port(),
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for HostPort {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<HostPort, AddressError> {
        let rest = match text.split_once("://") {
            Some(("millstream" | "grpc", rest)) => rest,
            Some((scheme, _)) => {
                return Err(AddressError::UnknownScheme {
                    scheme: scheme.to_owned(),
                });
            }
            None => text,
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match rest.strip_prefix('[') {
            Some(bracketed) => bracketed
                .split_once("]:")
                .filter(|(host, _)| host.parse::<Ipv6Addr>().is_ok()),
            None => rest.rsplit_once(':').filter(|(host, _)| !host.contains(':')),
        }
        .ok_or_else(|| AddressError::NoPort {
            text: text.to_owned(),
        })?;
        let unusable = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | '@' | '?' | '#');
        if host.is_empty() || host.contains(unusable) {
            return Err(AddressError::BadHost {
                text: text.to_owned(),
            });
        }
        let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        match port.parse() {
            Ok(port) if digits => Ok(HostPort {
                host: host.to_owned(),
                port,
            }),
            _ => Err(AddressError::BadPort {
                port: port.to_owned(),
            }),
        }
    }
}

/// The reason for which a text is not an address. The caller is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The scheme belongs to another service.
    #[error("`{scheme}://` is not a Millstream address: write `millstream://host:port` or `host:port`")]
    UnknownScheme {
        /// The text before `://`.
        scheme: String,
    },
    /// The text has no port, or an IPv6 address without brackets.
    #[error(
        "`{text}` is not `host:port`: the port is needed, and an IPv6 address needs brackets, as in `[::1]:5050`"
    )]
    NoPort {
        /// The rejected text.
        text: String,
    },
    /// The host is empty, or has characters that are invalid in a host.
    #[error("`{text}` has no valid host: write `host:port`")]
    BadHost {
        /// The rejected text.
        text: String,
    },
    /// The list has too many addresses.
    #[error("expected at most {limit} addresses, found more: name the dispatchers of one service only")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The port is not a number from 0 to 65535.
    #[error("`{port}` is not a port: use a number from 0 to 65535")]
    BadPort {
        /// The rejected port.
        port: String,
    },
}

/// The reason for which a host has no address now.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The resolver does not know the host.
    #[error("cannot find host `{host}`: {source}")]
    Unknown {
        /// The name.
        host: String,
        /// The resolver's reason.
        source: io::Error,
    },
    /// The resolver did not answer in time.
    #[error("no answer about host `{host}` from the resolver within {deadline_ms} ms")]
    TimedOut {
        /// The name.
        host: String,
        /// The time waited, in milliseconds.
        deadline_ms: u128,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_accepted_way_of_writing_means_the_same() {
        for text in [
            "millstream://node:5050",
            "grpc://node:5050",
            "node:5050",
            "millstream://node:5050/",
        ] {
            let address: HostPort = text.parse().unwrap();
            assert_eq!((address.host(), address.port()), ("node", 5050));
            assert_eq!(address.to_string(), "node:5050");
        }
        let six: HostPort = "millstream://[::1]:7".parse().unwrap();
        assert_eq!(
            (six.host(), six.port(), six.to_string().as_str()),
            ("::1", 7, "[::1]:7")
        );
        assert_eq!(HostPort::from("[::1]:7".parse::<SocketAddr>().unwrap()), six);
    }

    #[test]
    fn mistakes_are_named() {
        let parse = |text: &str| text.parse::<HostPort>().unwrap_err();
        assert!(matches!(
            parse("http://node:1"),
            AddressError::UnknownScheme { .. }
        ));
        assert!(matches!(parse("node"), AddressError::NoPort { .. }));
        assert!(matches!(parse("::1:5050"), AddressError::NoPort { .. }));
        assert!(matches!(parse("[node]:5050"), AddressError::NoPort { .. }));
        assert!(matches!(parse(":5050"), AddressError::BadHost { .. }));
        assert!(matches!(parse("user@node:1"), AddressError::BadHost { .. }));
        for port in ["node:", "node:x", "node:65536", "node:+1", "node:-1"] {
            assert!(matches!(parse(port), AddressError::BadPort { .. }), "{port}");
        }
    }

    #[tokio::test]
    async fn numbers_resolve_to_themselves_and_nonsense_does_not() {
        let deadline = Duration::from_secs(5);
        let address: HostPort = "[::1]:9".parse().unwrap();
        assert_eq!(
            address.resolve(deadline).await.unwrap(),
            ["[::1]:9".parse().unwrap()]
        );
        let nowhere: HostPort = "nowhere.invalid:9".parse().unwrap();
        let error = nowhere.resolve(deadline).await.unwrap_err().to_string();
        assert!(error.contains("nowhere.invalid"), "{error}");
    }
}
