//! The key of one role: its signing subkey, and the public keys by which the other roles are recognised.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

use super::hex;
use super::key_text_error::KeyTextError;
use super::public_keys::{PublicKeys, public_key};
use super::role::Role;

/// The secret to act as one role, and the public keys to recognise all roles. `millstream key --role read`
/// prints the key of the role `read`.
#[derive(Clone, PartialEq, Eq)]
pub struct RoleKey {
    role: Role,
    /// The Ed25519 seed of the role's signing key.
    subkey: [u8; 32],
    /// The Ed25519 public keys of all roles, in the order of [`Role::ALL`].
    anchors: [[u8; 32]; 4],
}

impl RoleKey {
    /// The prefix of the text form of a role key.
    pub const PREFIX: &'static str = "millstream-role-1:";

    pub(super) fn new(role: Role, subkey: [u8; 32], anchors: [[u8; 32]; 4]) -> RoleKey {
        RoleKey {
            role,
            subkey,
            anchors,
        }
    }

    /// Returns the role in which the key's holder can act.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns the key as one line of text: `millstream-role-1:<role>:<secret>:<four public keys>`.
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

    /// Parses the text form of a role key. Surrounding white space is ignored.
    ///
    /// # Errors
    /// Returns an error if the text is not such a line, or if the secret does not belong to the role's public
    /// key.
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
            return Err(KeyTextError::BadRoleKey("but found more fields"));
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

impl From<&RoleKey> for PublicKeys {
    fn from(key: &RoleKey) -> PublicKeys {
        PublicKeys::new(key.anchors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::ClusterKey;

    #[test]
    fn a_tampered_role_key_is_refused() {
        let text = ClusterKey::from_bytes([1; 32]).role_key(Role::Read).to_text();
        assert!(RoleKey::from_text(&text.replace(":read:", ":worker:")).is_err());
        assert!(RoleKey::from_text(&text[..text.len() - 1]).is_err());
        assert!(RoleKey::from_text(&format!("{text}:00")).is_err());
        assert!(RoleKey::from_text(&text.replace(":read:", ":admin:")).is_err());
    }
}
