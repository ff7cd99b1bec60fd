//! The public half of a cluster key. With the public half, a process recognises the cluster's roles, but
//! cannot act in any role.
//!
//! A key file may list the public keys of other cluster keys, which are accepted too during a key rotation.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};

use super::hex;
use super::key_text_error::KeyTextError;

/// The Ed25519 public keys of a cluster key's roles. Public keys contain no secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKeys {
    /// The public keys of the roles, in the order of [`Role::ALL`](super::Role::ALL).
    anchors: [[u8; 32]; 4],
}

impl PublicKeys {
    /// The prefix of the text form of public keys.
    pub const PREFIX: &'static str = "millstream-public-1:";

    pub(super) fn new(anchors: [[u8; 32]; 4]) -> PublicKeys {
        PublicKeys { anchors }
    }

    /// Returns the public keys as one line of text: `millstream-public-1:` and 256 hexadecimal digits.
    pub fn to_text(&self) -> String {
        format!("{}{}", Self::PREFIX, hex::encode(&self.anchors.concat()))
    }

    /// Parses the text form of public keys. Surrounding white space is ignored.
    ///
    /// # Errors
    /// Returns an error if the text is not such a line.
    pub fn from_text(text: &str) -> Result<PublicKeys, KeyTextError> {
        let digits = text
            .trim()
            .strip_prefix(Self::PREFIX)
            .ok_or(KeyTextError::UnknownForm)?;
        let bytes = hex::decode::<128>(digits).ok_or(KeyTextError::BadPublicKeys)?;
        let mut anchors = [[0; 32]; 4];
        for (row, bytes) in anchors.iter_mut().zip(bytes.chunks_exact(32)) {
            row.copy_from_slice(bytes);
        }
        Ok(PublicKeys { anchors })
    }

    /// Returns a short text that names these keys: 32 hexadecimal digits of their SHA-256.
    pub fn fingerprint(&self) -> String {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &self.anchors.concat());
        hex::encode(&digest.as_ref()[..16])
    }

    pub(super) fn anchors(&self) -> &[[u8; 32]; 4] {
        &self.anchors
    }
}

/// Returns the Ed25519 public key of a 32-byte seed.
pub(super) fn public_key(seed: &[u8; 32]) -> [u8; 32] {
    let pair = Ed25519KeyPair::from_seed_unchecked(seed).expect("any 32 bytes are an Ed25519 seed");
    let mut public = [0; 32];
    public.copy_from_slice(pair.public_key().as_ref());
    public
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{ClusterKey, Role};

    #[test]
    fn public_keys_cover_all_roles() {
        let key = ClusterKey::from_bytes([3; 32]);
        let public = PublicKeys::from(&key);
        for role in Role::ALL {
            assert_eq!(PublicKeys::from(&key.role_key(role)), public);
        }
        let text = public.to_text();
        assert_eq!(PublicKeys::from_text(&format!(" {text}\n")), Ok(public));
        assert!(!text.contains(&hex::encode(key.role_key(Role::Read).subkey())));
        for wrong in [&text[..text.len() - 1], "millstream-public-1:xy", "hello"] {
            assert!(PublicKeys::from_text(wrong).is_err());
        }
    }
}
