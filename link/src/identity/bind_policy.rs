//! Decides at which addresses a server may listen, given the origin of its key.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::net::SocketAddr;

/// Allows any loopback address. Allows any other address only if the key was given explicitly.
///
/// Only this user on this machine knows a key that was made on first use, so no other machine could connect.
/// A service that listens to a network by accident would only be exposed to strangers.
///
/// # Errors
/// Returns an error if `address` is not a loopback address and `explicitly_given` is false.
pub fn bind_policy(address: SocketAddr, explicitly_given: bool) -> Result<(), BindRefused> {
    if explicitly_given || address.ip().to_canonical().is_loopback() {
        Ok(())
    } else {
        Err(BindRefused { address })
    }
}

/// The error for a server that would listen beyond this machine with a key that exists on this machine only.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "will not listen on {address}, which other machines can reach, with the key that was made for this machine: \
     give the cluster's key with --key FILE or MILLSTREAM_KEY (`millstream key` prints one to share), \
     or listen on 127.0.0.1"
)]
pub struct BindRefused {
    /// The requested address.
    pub address: SocketAddr,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_loopback_needs_an_explicit_key() {
        for loopback in ["127.0.0.1:0", "127.8.8.8:1", "[::1]:5050", "[::ffff:127.0.0.1]:1"] {
            assert_eq!(bind_policy(loopback.parse().unwrap(), false), Ok(()));
        }
        for beyond in ["0.0.0.0:0", "[::]:5050", "10.0.0.1:5050", "[::ffff:10.0.0.1]:1"] {
            let address = beyond.parse().unwrap();
            assert_eq!(bind_policy(address, false), Err(BindRefused { address }));
            assert_eq!(bind_policy(address, true), Ok(()));
        }
    }
}
