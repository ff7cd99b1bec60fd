//! The text form of a list of revoked certificates and keys, and the check of a peer's certificate against
//! the list.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::collections::HashSet;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::hex;
use super::public_keys::PublicKeys;
use super::role::Role;

/// Maximum number of entries of a list.
const ENTRIES_MAX: usize = 10_000;

/// Maximum number of keys of a list. Each key is tried on every certificate.
const KEYS_MAX: usize = 64;

/// The prefix of the entry of a certificate.
const CERTIFICATE_PREFIX: &str = "sha256:";

/// A list of revoked certificates and keys.
///
/// The text form has one entry per line. Empty lines and lines that begin with `#` are ignored. An entry is
/// one of these:
///
/// - `sha256:` and 64 hexadecimal digits revoke the certificate with this digest, which the audit log shows;
/// - `millstream-public-1:…`, as printed by `millstream key --public`, revokes every holder of the key;
/// - a role and then such a line revoke the holders of the key in this role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevokedList {
    certificates: HashSet<[u8; 32]>,
    /// The public keys of the revoked roles, which signed the certificates of their holders.
    signers: Vec<[u8; 32]>,
}

impl RevokedList {
    /// Parses the text of a list.
    ///
    /// # Errors
    /// Returns a [`RevokedListError`], which names the line.
    pub fn from_text(text: &str) -> Result<RevokedList, RevokedListError> {
        let mut list = RevokedList::default();
        let mut entries = 0;
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            entries += 1;
            list.add(line)
                .ok_or(RevokedListError::UnknownEntry { line: index + 1 })?;
            if entries > ENTRIES_MAX || list.signers.len() > KEYS_MAX * Role::ALL.len() {
                return Err(RevokedListError::TooLong);
            }
        }
        Ok(list)
    }

    fn add(&mut self, entry: &str) -> Option<()> {
        if let Some(digits) = entry.strip_prefix(CERTIFICATE_PREFIX) {
            self.certificates.insert(hex::decode(digits)?);
            return Some(());
        }
        let (roles, keys) = match entry.split_once(char::is_whitespace) {
            Some((role, keys)) => (vec![role.parse::<Role>().ok()?], keys),
            None => (Role::ALL.to_vec(), entry),
        };
        let keys = PublicKeys::from_text(keys).ok()?;
        self.signers
            .extend(roles.iter().map(|role| keys.anchors()[role.index()]));
        Some(())
    }

    /// Returns whether the list contains this certificate (DER), or the key that signed it.
    pub fn names(&self, certificate: &[u8]) -> bool {
        if self.certificates.contains(digest(&SHA256, certificate).as_ref()) {
            return true;
        }
        if self.signers.is_empty() {
            return false;
        }
        let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
            return false;
        };
        let (signed, signature) = (parsed.tbs_certificate.as_ref(), &parsed.signature_value.data);
        self.signers.iter().any(|key| {
            UnparsedPublicKey::new(&ED25519, key)
                .verify(signed, signature)
                .is_ok()
        })
    }
}

/// The reason for which a text is not a list of revoked certificates and keys. The operator is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RevokedListError {
    /// A line is not a valid entry.
    #[error(
        "invalid entry in line {line}: expected `sha256:` and 64 hexadecimal digits, or a line printed by `millstream key --public`, \
         with or without a role before it"
    )]
    UnknownEntry {
        /// The number of the line, from 1.
        line: usize,
    },
    /// The list has too many entries or keys.
    #[error(
        "expected at most {ENTRIES_MAX} entries and {KEYS_MAX} keys, found more: remove entries of keys that no process accepts any more"
    )]
    TooLong,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::ClusterKey;
    use crate::tls::Leaf;

    fn certificate(key: &ClusterKey, role: Role) -> Vec<u8> {
        let credentials = key.credentials(role);
        Leaf::of(&credentials).unwrap().chain[0].to_vec()
    }

    fn list(text: &str) -> RevokedList {
        RevokedList::from_text(text).unwrap()
    }

    #[test]
    fn a_certificate_is_revoked_by_its_digest() {
        let key = ClusterKey::from_bytes([1; 32]);
        let [one, other] = [(); 2].map(|()| certificate(&key, Role::Read));
        let digits = hex::encode(digest(&SHA256, &one).as_ref());
        let list = list(&format!("# a laptop\n\n  sha256:{digits}\n"));
        assert!(list.names(&one));
        assert!(!list.names(&other));
    }

    #[test]
    fn a_key_is_revoked_by_role() {
        let [leaked, new] = [[1; 32], [2; 32]].map(ClusterKey::from_bytes);
        let public = PublicKeys::from(&leaked).to_text();
        let (of_read, of_all) = (list(&format!("read {public}")), list(&public));
        for role in Role::ALL {
            let held = certificate(&leaked, role);
            assert_eq!(of_read.names(&held), role == Role::Read);
            assert!(of_all.names(&held));
            assert!(!of_all.names(&certificate(&new, role)));
        }
    }

    #[test]
    fn texts_that_are_no_lists_name_the_line() {
        for wrong in ["hello", "sha256:12", "admin millstream-public-1:00", "read"] {
            let error = RevokedList::from_text(&format!("# x\n{wrong}"));
            assert_eq!(error, Err(RevokedListError::UnknownEntry { line: 2 }));
        }
        let many = format!("sha256:{}\n", "0".repeat(64)).repeat(ENTRIES_MAX + 1);
        assert_eq!(RevokedList::from_text(&many), Err(RevokedListError::TooLong));
    }

    #[test]
    fn bytes_that_are_no_certificate_are_not_named() {
        let public = PublicKeys::from(&ClusterKey::from_bytes([1; 32])).to_text();
        assert!(!list(&public).names(b"no certificate"));
    }
}
