//! The key of one role: its signing subkey, and the public keys by which the other roles are recognised.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

use super::cluster_key::public_key;
use super::{ClusterKey, Credentials, CredentialsError, KeyTextError, PublicKeys, Role, hex};

/// What a process needs to act as one role, and to recognise all: given away by `millstream key --role read`.
#[derive(Clone, PartialEq, Eq)]
pub struct RoleKey {
    role: Role,
    /// Ed25519 seed of the role's signing key.
    subkey: [u8; 32],
    /// Ed25519 public keys of all roles, in the order of [`Role::ALL`].
    anchors: [[u8; 32]; 4],
}

impl RoleKey {
    /// Text forms begin with this.
    pub const PREFIX: &'static str = "millstream-role-1:";

    pub(super) fn new(role: Role, subkey: [u8; 32], anchors: [[u8; 32]; 4]) -> RoleKey {
        RoleKey {
            role,
            subkey,
            anchors,
        }
    }

    /// The role this key may act in.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Credentials to act as this key's role.
    pub fn credentials(&self) -> Credentials {
        Credentials::of_role_key(self)
    }

    /// The key as one line of text: `millstream-role-1:<role>:<secret>:<four public keys>`.
    pub fn to_text(&self) -> String {
        let anchors = self.anchors.concat();
        format!(
            "{}{}:{}:{}",
            Self::PREFIX,
            self.role,
            hex::encode(&self.subkey),
            hex::encode(&anchors)
        )
    }

    /// The key of a text form; surrounding white space is ignored.
    ///
    /// # Errors
    /// The text is not such a line, or its secret does not belong to its role's public key.
    pub fn from_text(text: &str) -> Result<RoleKey, KeyTextError> {
        let fields = text
            .trim()
            .strip_prefix(Self::PREFIX)
            .ok_or(KeyTextError::UnknownForm)?;
        let mut fields = fields.split(':');
        let mut field = || {
            fields
                .next()
                .ok_or(KeyTextError::BadRoleKey("but a field is missing"))
        };
        let role: Role = field()?
            .parse()
            .map_err(|_| KeyTextError::BadRoleKey("but the role is unknown"))?;
        let subkey =
            hex::decode::<32>(field()?).ok_or(KeyTextError::BadRoleKey("but the secret is damaged"))?;
        let anchors =
            hex::decode::<128>(field()?).ok_or(KeyTextError::BadRoleKey("but a public key is damaged"))?;
        if fields.next().is_some() {
            return Err(KeyTextError::BadRoleKey("but there is more"));
        }
        let mut rows = [[0; 32]; 4];
        for (row, bytes) in rows.iter_mut().zip(anchors.chunks_exact(32)) {
            row.copy_from_slice(bytes);
        }
        if public_key(&subkey) != rows[role.index()] {
            return Err(KeyTextError::BadRoleKey(
                "but the secret does not belong to the role's public key",
            ));
        }
        Ok(RoleKey {
            role,
            subkey,
            anchors: rows,
        })
    }

    pub(crate) fn subkey(&self) -> &[u8; 32] {
        &self.subkey
    }

    pub(super) fn anchors(&self) -> &[[u8; 32]; 4] {
        &self.anchors
    }
}

impl fmt::Debug for RoleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RoleKey({}, hidden)", self.role)
    }
}

/// A key of either kind, as found in a file or in `MILLSTREAM_KEY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyMaterial {
    /// The cluster's secret: any role.
    Cluster(ClusterKey),
    /// One role's key: that role only.
    Role(RoleKey),
}

impl KeyMaterial {
    /// Whether `text` claims to be a key rather than, say, a path to one.
    pub fn looks_like_key(text: &str) -> bool {
        let text = text.trim_start();
        text.starts_with(ClusterKey::PREFIX)
            || text.starts_with(RoleKey::PREFIX)
            || text.starts_with(PublicKeys::PREFIX)
    }

    /// The key of either text form.
    ///
    /// # Errors
    /// The text is neither, or it is public.
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

    /// What others need to recognise the holders of this key's cluster, and no secret.
    pub fn public(&self) -> PublicKeys {
        match self {
            KeyMaterial::Cluster(key) => PublicKeys::from(key),
            KeyMaterial::Role(key) => PublicKeys::from(key),
        }
    }

    /// Credentials to act as `role`.
    ///
    /// # Errors
    /// A role key was given and it is another role's.
    pub fn credentials(&self, role: Role) -> Result<Credentials, CredentialsError> {
        match self {
            KeyMaterial::Cluster(key) => Ok(key.credentials(role)),
            KeyMaterial::Role(key) if key.role == role => Ok(key.credentials()),
            KeyMaterial::Role(key) => Err(CredentialsError::OtherRole {
                wanted: role,
                held: key.role,
            }),
        }
    }
}

impl ClusterKey {
    /// Credentials to act as `role`.
    pub fn credentials(&self, role: Role) -> Credentials {
        self.role_key(role).credentials()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_key_round_trips_and_acts_as_its_role_only() {
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

    #[test]
    fn a_role_key_with_a_swapped_role_or_secret_is_refused() {
        let text = ClusterKey::from_bytes([1; 32]).role_key(Role::Read).to_text();
        assert!(RoleKey::from_text(&text.replace(":read:", ":worker:")).is_err());
        assert!(RoleKey::from_text(&text[..text.len() - 1]).is_err());
        assert!(RoleKey::from_text(&format!("{text}:00")).is_err());
        assert!(RoleKey::from_text(&text.replace(":read:", ":admin:")).is_err());
    }
}
