//! How a server that comes back tells the peers of its earlier life at once that their connections are gone.
//!
//! To a packet of a connection that it does not know it answers with a reset (RFC 9000, section 10.3), which the peer believes
//! only if it carries a token that the earlier life alone could have made. So the tokens follow from the server's key, which
//! lasts, and from its address, which keeps servers with one key apart.

use std::net::SocketAddr;
use std::sync::Arc;

use aws_lc_rs::{hkdf, hmac};
use quinn_proto::HashedConnectionIdGenerator;

use crate::identity::{Credentials, Signer};

/// Has a server at this address recognise, and reset, connections of whoever served there with the same key before.
pub(super) fn survive_restarts(
    config: &mut quinn::EndpointConfig,
    credentials: &Credentials,
    address: SocketAddr,
) {
    let tokens = derive(credentials, address, b"tokens");
    let ids = derive(credentials, address, b"connection ids");
    let ids = ids
        .iter()
        .fold(0, |key: u64, byte| key.rotate_left(8) ^ u64::from(*byte));
    config
        .reset_key(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &tokens)))
        .cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(ids)));
}

fn derive(credentials: &Credentials, address: SocketAddr, purpose: &[u8]) -> [u8; 32] {
    let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"millstream connection reset 1");
    let secret = match credentials.signer() {
        Signer::RoleKey(seed) => salt.extract(seed),
        Signer::Site { key, .. } => salt.extract(key.secret_der()),
    };
    let mut derived = [0; 32];
    secret
        .expand(&[purpose, address.to_string().as_bytes()], hkdf::HKDF_SHA256)
        .and_then(|okm| okm.fill(&mut derived))
        .expect("32 bytes are one SHA-256 output, which HKDF always gives");
    derived
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{ClusterKey, Role};

    #[test]
    fn tokens_differ_by_key_role_address_and_purpose_and_by_nothing_else() {
        let credentials = |key, role| ClusterKey::from_bytes([key; 32]).credentials(role);
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let one = derive(&credentials(1, Role::Worker), address(1), b"tokens");
        assert_eq!(one, derive(&credentials(1, Role::Worker), address(1), b"tokens"));
        let others = [
            derive(&credentials(2, Role::Worker), address(1), b"tokens"),
            derive(&credentials(1, Role::Dispatcher), address(1), b"tokens"),
            derive(&credentials(1, Role::Worker), address(2), b"tokens"),
            derive(&credentials(1, Role::Worker), address(1), b"connection ids"),
        ];
        assert!(!others.contains(&one));
    }
}
