//! The keys of one process: its own key, and the keys that it also accepts during a key rotation.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::{ClusterKey, Credentials, CredentialsError, KeyMaterial, KeyTextError, PublicKeys, Role};

/// Maximum number of accepted keys besides the first. A rotation needs one.
const ACCEPTED_MAX: usize = 4;

/// A key to act with, and the public keys of other holders that are accepted.
///
/// The text form has one key per line. The first key is a cluster key or a role key. All later lines are keys
/// of any kind, of which only the public half is used. Empty lines and lines that begin with `#` are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRing {
    /// The key with which this process acts.
    pub own: KeyMaterial,
    /// The public keys of other cluster keys, whose holders are accepted too.
    pub accepted: Vec<PublicKeys>,
}

impl KeyRing {
    /// Parses the keys of a text.
    ///
    /// Returns an error if the first line is not a key to act with, or if another line is not a key. Returns
    /// an error for more than five keys, too.
    ///
    /// The message never repeats the text.
    pub fn from_text(text: &str) -> Result<KeyRing, KeyTextError> {
        let mut lines = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let own = KeyMaterial::from_text(lines.next().unwrap_or_default())?;
        let accepted = lines.map(public).collect::<Result<Vec<_>, _>>()?;
        if accepted.len() > ACCEPTED_MAX {
            return Err(KeyTextError::TooManyKeys {
                found: accepted.len() + 1,
                max: ACCEPTED_MAX + 1,
            });
        }
        Ok(KeyRing { own, accepted })
    }

    /// Returns the credentials to act as `role` with the own key. The credentials accept the holders of all
    /// keys of the ring.
    ///
    /// # Errors
    /// Returns an error if the own key is the key of another role.
    pub fn credentials(&self, role: Role) -> Result<Credentials, CredentialsError> {
        Ok(self.own.credentials(role)?.accepting(&self.accepted))
    }
}

fn public(line: &str) -> Result<PublicKeys, KeyTextError> {
    if line.starts_with(PublicKeys::PREFIX) {
        return PublicKeys::from_text(line);
    }
    Ok(KeyMaterial::from_text(line)?.public())
}

impl From<ClusterKey> for KeyRing {
    fn from(key: ClusterKey) -> KeyRing {
        KeyRing {
            own: KeyMaterial::Cluster(key),
            accepted: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_acts_the_others_accept() {
        let [one, two, three] = [1, 2, 3].map(|byte| ClusterKey::from_bytes([byte; 32]));
        let text = format!(
            "# from Monday on\n{}\n\n{}\n{}\n",
            one.role_key(Role::Worker).to_text(),
            PublicKeys::from(&two).to_text(),
            three.to_text()
        );
        let ring = KeyRing::from_text(&text).unwrap();
        assert_eq!(ring.own, KeyMaterial::Role(one.role_key(Role::Worker)));
        assert_eq!(ring.accepted, [PublicKeys::from(&two), PublicKeys::from(&three)]);
        assert!(ring.credentials(Role::Worker).is_ok());
        assert!(ring.credentials(Role::Read).is_err());
    }

    #[test]
    fn a_ring_needs_its_own_key() {
        let key = ClusterKey::from_bytes([1; 32]);
        let public = PublicKeys::from(&key).to_text();
        assert_eq!(KeyRing::from_text(""), Err(KeyTextError::UnknownForm));
        assert_eq!(KeyRing::from_text(&public), Err(KeyTextError::PublicKeyAlone));
        assert_eq!(
            KeyRing::from_text(&format!("{}\nhello", key.to_text())),
            Err(KeyTextError::UnknownForm)
        );
        let many = format!("{}\n{}", key.to_text(), format!("{public}\n").repeat(5));
        let too_many = KeyTextError::TooManyKeys { found: 6, max: 5 };
        assert_eq!(KeyRing::from_text(&many), Err(too_many));
    }
}
