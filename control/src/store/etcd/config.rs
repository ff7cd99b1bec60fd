//! The settings of a store on etcd, and their text form `etcd://HOST:PORT,.../PREFIX`.
//!
//! This file is part of every build, so that a build without etcd can refuse the setting by name.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use millstream_link::HostPort;

/// Maximum number of etcd members. etcd advises against more than seven members.
const MEMBERS_MAX: usize = 16;
/// Maximum bytes of a prefix, which is a part of every key.
const PREFIX_BYTES_MAX: usize = 256;
/// The prefix of an address that names none.
const PREFIX_DEFAULT: &str = "millstream";

/// The settings of a store on etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdConfig {
    /// The members of etcd to ask, at least one. Members that are not listed are never asked.
    pub members: Vec<HostPort>,
    /// True if the connections to etcd are encrypted. Required beyond this host, because the records hold
    /// the keys that sign tickets.
    pub is_encrypted: bool,
    /// The beginning of all keys of this service, without slashes at its ends.
    pub prefix: String,
    /// The user and the password, if etcd requires authentication.
    pub user: Option<EtcdUser>,
    /// The file with the certificates that may sign the certificates of etcd, as PEM.
    pub ca: Option<PathBuf>,
    /// The files with the certificate and the private key of this dispatcher, as PEM, if etcd asks for them.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// A user of etcd, whose password `Debug` hides.
#[derive(Clone, PartialEq, Eq)]
pub struct EtcdUser {
    /// The name of the user.
    pub name: String,
    /// The password of the user.
    pub password: String,
}

impl fmt::Debug for EtcdUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EtcdUser({})", self.name)
    }
}

impl EtcdConfig {
    /// Returns the members as they are written in an address.
    pub fn names(&self) -> String {
        let names: Vec<String> = self.members.iter().map(HostPort::to_string).collect();
        names.join(",")
    }

    /// Returns whether all members are on this host.
    pub fn is_local(&self) -> bool {
        self.members.iter().all(is_loopback)
    }
}

impl fmt::Display for EtcdConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_encrypted { "etcds" } else { "etcd" };
        write!(f, "{scheme}://{}/{}", self.names(), self.prefix)
    }
}

impl FromStr for EtcdConfig {
    type Err = EtcdConfigError;

    fn from_str(text: &str) -> Result<EtcdConfig, EtcdConfigError> {
        let malformed = |reason: String| EtcdConfigError::Malformed {
            text: text.to_owned(),
            reason,
        };
        let (is_encrypted, rest) = match text.split_once("://") {
            Some(("etcd", rest)) => (false, rest),
            Some(("etcds", rest)) => (true, rest),
            Some(_) | None => return Err(malformed("it does not begin with etcd:// or etcds://".to_owned())),
        };
        if rest.contains('@') {
            return Err(EtcdConfigError::HasUser);
        }
        let (members, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = Some(prefix.trim_matches('/')).filter(|prefix| !prefix.is_empty());
        let prefix = prefix.unwrap_or(PREFIX_DEFAULT);
        let unusable = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '?' | '#');
        if prefix.len() > PREFIX_BYTES_MAX || prefix.contains(unusable) {
            return Err(malformed(format!(
                "the prefix must have at most {PREFIX_BYTES_MAX} bytes, without spaces, ? and #"
            )));
        }
        let members: Result<Vec<HostPort>, _> = members.split(',').map(parse_member).collect();
        let members = members.map_err(malformed)?;
        if members.len() > MEMBERS_MAX {
            return Err(malformed(format!("it has more than {MEMBERS_MAX} members")));
        }
        let beyond = members.iter().find(|member| !is_loopback(member));
        if let (false, Some(member)) = (is_encrypted, beyond) {
            return Err(EtcdConfigError::Plaintext {
                member: member.to_string(),
            });
        }
        Ok(EtcdConfig {
            members,
            is_encrypted,
            prefix: prefix.to_owned(),
            user: None,
            ca: None,
            identity: None,
        })
    }
}

fn parse_member(text: &str) -> Result<HostPort, String> {
    if text.contains("://") {
        return Err(format!("the member {text} must be HOST:PORT"));
    }
    text.parse::<HostPort>().map_err(|error| error.to_string())
}

fn is_loopback(member: &HostPort) -> bool {
    let ip: Option<std::net::IpAddr> = member.host().parse().ok();
    member.host() == "localhost" || ip.is_some_and(|ip| ip.to_canonical().is_loopback())
}

/// The reason for which a text cannot be the address of a store on etcd. The caller is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EtcdConfigError {
    /// The text has another form.
    #[error("`{text}` is not a store on etcd: {reason}; write etcd://HOST:PORT,.../PREFIX")]
    Malformed {
        /// The rejected text.
        text: String,
        /// The fault.
        reason: String,
    },
    /// The address contains a user, whose password must not be repeated in the message.
    #[error(
        "the store's address contains `@`: give the user with --store-user NAME --store-password-file FILE, and write the \
         address as etcd://HOST:PORT,.../PREFIX"
    )]
    HasUser,
    /// A member on another host would be asked without encryption.
    #[error(
        "etcd at {member} is on another host, and etcd:// is not encrypted: the records hold the keys that sign tickets, so \
         write etcds:// and let etcd serve TLS"
    )]
    Plaintext {
        /// The member.
        member: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_members_and_prefix() {
        let config: EtcdConfig = "etcds://a:2379,[::1]:5/trains/one/".parse().unwrap();
        assert!(config.is_encrypted);
        assert_eq!(
            (config.names().as_str(), config.prefix.as_str()),
            ("a:2379,[::1]:5", "trains/one")
        );
        assert_eq!(config.to_string(), "etcds://a:2379,[::1]:5/trains/one");
        let config: EtcdConfig = "etcd://localhost:2379".parse().unwrap();
        assert_eq!(config.prefix, "millstream");
        assert!(!config.is_encrypted);
    }

    #[test]
    fn mistakes_in_addresses_are_named() {
        let refused = |text: &str| text.parse::<EtcdConfig>().unwrap_err().to_string();
        for text in [
            "redis://a:1",
            "etcd://",
            "etcd://a",
            "etcd://127.0.0.1:1,,127.0.0.1:2",
            "etcd://localhost:1/a b",
        ] {
            let error = refused(text);
            assert!(
                error.starts_with(&format!("`{text}` is not a store on etcd")),
                "{error}"
            );
        }
        let error = refused("etcd://127.0.0.1:1,10.0.0.7:2379/x");
        assert!(
            error.contains("10.0.0.7:2379 is on another host") && error.contains("etcds://"),
            "{error}"
        );
    }

    #[test]
    fn passwords_in_addresses_are_not_repeated() {
        for text in [
            "etcd://mill:secret@localhost:2379/x",
            "etcd://mill:sec/ret@localhost:2379/x",
        ] {
            let error = text.parse::<EtcdConfig>().unwrap_err().to_string();
            assert!(error.contains("--store-user"), "{error}");
            assert!(!error.contains("sec") && !error.contains("ret"), "{error}");
        }
    }

    #[test]
    fn passwords_are_not_printed() {
        let mut config: EtcdConfig = "etcd://localhost:2379".parse().unwrap();
        config.user = Some(EtcdUser {
            name: "mill".to_owned(),
            password: "secret".to_owned(),
        });
        let text = format!("{config:?} {config}");
        assert!(text.contains("mill") && !text.contains("secret"), "{text}");
    }
}
