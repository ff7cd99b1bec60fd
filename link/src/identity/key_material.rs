//! A key as a user provides it: the cluster's secret, or the key of one role.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::cluster_key::ClusterKey;
use super::credentials::{Credentials, CredentialsError};
use super::key_text_error::KeyTextError;
use super::public_keys::PublicKeys;
use super::role::Role;
use super::role_key::RoleKey;

/// A key of either kind, as found in a file or in `MILLSTREAM_KEY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyMaterial {
    /// The cluster's secret, which allows any role.
    Cluster(ClusterKey),
    /// The key of one role, which allows that role only.
    Role(RoleKey),
}

impl KeyMaterial {
    /// Returns whether `text` looks like a key, not like the path of a key file.
    pub fn looks_like_key(text: &str) -> bool {
        let text = text.trim_start();
        text.starts_with(ClusterKey::PREFIX)
            || text.starts_with(RoleKey::PREFIX)
            || text.starts_with(PublicKeys::PREFIX)
    }

    /// Parses the text form of a key of either kind.
    ///
    /// # Errors
    /// Returns an error if the text is not a key, or if it is a public key.
    pub fn from_text(text: &str) -> Result<KeyMaterial, KeyTextError> {
        if text.trim_start().starts_with(PublicKeys::PREFIX) {
            return Err(KeyTextError::PublicKeyAlone);
        }
        if text.trim_start().starts_with(RoleKey::PREFIX) {
            RoleKey::from_text(text).map(KeyMaterial::Role)
        } else {
            ClusterKey::from_text(text).map(KeyMaterial::Cluster)
        }
    }

    /// Returns the public half of this key, by which other processes recognise the key's holders.
    pub fn public(&self) -> PublicKeys {
        match self {
            KeyMaterial::Cluster(key) => PublicKeys::from(key),
            KeyMaterial::Role(key) => PublicKeys::from(key),
        }
    }

    /// Returns the credentials to act as `role`.
    ///
    /// # Errors
    /// Returns an error if the key is a role key of another role.
    pub fn credentials(&self, role: Role) -> Result<Credentials, CredentialsError> {
        match self {
            KeyMaterial::Cluster(key) => Ok(key.credentials(role)),
            KeyMaterial::Role(key) if key.role() == role => Ok(key.credentials()),
            KeyMaterial::Role(key) => Err(CredentialsError::OtherRole {
                wanted: role,
                held: key.role(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::hex;

    #[test]
    fn a_role_key_acts_as_its_role() {
        let cluster = ClusterKey::from_bytes([1; 32]);
        let read = cluster.role_key(Role::Read);
        let text = read.to_text();
        assert_eq!(KeyMaterial::from_text(&text), Ok(KeyMaterial::Role(read.clone())));
        assert!(KeyMaterial::looks_like_key(&text));
        assert!(!text.contains(&hex::encode(cluster.role_key(Role::Worker).subkey())));
        let material = KeyMaterial::Role(read);
        assert!(material.credentials(Role::Read).is_ok());
        assert_eq!(
            material.credentials(Role::Worker).unwrap_err(),
            CredentialsError::OtherRole {
                wanted: Role::Worker,
                held: Role::Read
            }
        );
    }
}
