//! Stateless resets, with which a restarted server tells the peers of its earlier process at once that their
//! connections are gone.
//!
//! The server answers a packet of an unknown connection with a reset (RFC 9000, section 10.3). The peer
//! believes a reset only if it carries a token that only the earlier process could have made.
//!
//! Therefore the tokens are derived from the server's key, which lasts, and from its host and address. Host
//! and address distinguish servers with the same key: servers on `0.0.0.0:5051` of many hosts have the same
//! address. One server must not be able to end the connections of another (RFC 9000, section 21.11).

use std::net::SocketAddr;
use std::sync::Arc;

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use aws_lc_rs::{hkdf, hmac};
use quinn_proto::HashedConnectionIdGenerator;

use crate::identity::{Credentials, Signer};

/// Configures a server to recognise and reset connections of an earlier server with the same address and key.
pub(super) fn survive_restarts(
    config: &mut quinn::EndpointConfig,
    credentials: &Credentials,
    address: SocketAddr,
) {
    let host = host();
    let tokens = derive(credentials, (&host, address), b"tokens");
    let ids = derive(credentials, (&host, address), b"connection ids");
    let ids = ids
        .iter()
        .fold(0, |key: u64, byte| key.rotate_left(8) ^ u64::from(*byte));
    config
        .reset_key(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &tokens)))
        .cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(ids)));
}

/// Returns bytes that identify this host: the random id of the kernel's present boot, and the host name,
/// which distinguishes containers. Returns random bytes if the id is not available; peers then notice a
/// restart by silence only.
fn host() -> Vec<u8> {
    let named = |path: &str| std::fs::read(path).unwrap_or_default();
    let boot = named("/proc/sys/kernel/random/boot_id");
    if boot.is_empty() {
        let mut random = vec![0; 32];
        // The error is ignored, because a system without randomness has failed before, when it made its
        // certificate.
        let _ = SystemRandom::new().fill(&mut random);
        return random;
    }
    [boot, named("/proc/sys/kernel/hostname")].concat()
}

fn derive(credentials: &Credentials, (host, address): (&[u8], SocketAddr), purpose: &[u8]) -> [u8; 32] {
    let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"millstream connection reset 1");
    let secret = match credentials.signer() {
        Signer::RoleKey(seed) => salt.extract(seed),
        Signer::Site { key, .. } => salt.extract(key.secret_der()),
    };
    let mut derived = [0; 32];
    secret
        .expand(
            &[purpose, host, address.to_string().as_bytes()],
            hkdf::HKDF_SHA256,
        )
        .and_then(|okm| okm.fill(&mut derived))
        .expect("32 bytes are one SHA-256 output, which HKDF always gives");
    derived
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{ClusterKey, Role};

    #[test]
    fn tokens_differ_by_everything_that_matters() {
        let credentials = |key, role| ClusterKey::from_bytes([key; 32]).credentials(role);
        let place = |host, port| (host, SocketAddr::from(([0, 0, 0, 0], port)));
        let (worker, here) = (credentials(1, Role::Worker), place(b"here".as_slice(), 1));
        let one = derive(&worker, here, b"tokens");
        assert_eq!(one, derive(&worker, here, b"tokens"));
        let others = [
            derive(&credentials(2, Role::Worker), here, b"tokens"),
            derive(&credentials(1, Role::Dispatcher), here, b"tokens"),
            derive(&worker, place(b"here", 2), b"tokens"),
            derive(&worker, place(b"there", 1), b"tokens"),
            derive(&worker, here, b"connection ids"),
        ];
        assert!(!others.contains(&one));
    }

    #[test]
    fn a_host_stays_the_same_while_it_runs() {
        assert!(!host().is_empty());
        if cfg!(target_os = "linux") {
            assert_eq!(host(), host());
        }
    }
}
