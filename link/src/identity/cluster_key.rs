//! The secret of a cluster, and the subkeys derived from it.
//!
//! The module owns the text form of the key and the derivation. Files and certificates are unknown to it.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;

use aws_lc_rs::hkdf;
use aws_lc_rs::rand::{SecureRandom, SystemRandom};

use super::hex;
use super::key_text_error::KeyTextError;
use super::public_keys::{PublicKeys, public_key};
use super::role::Role;
use super::role_key::RoleKey;

/// The secret that makes a set of processes a cluster: 32 random bytes.
///
/// The holder of the key can act in every role. `Debug` hides the key; only [`ClusterKey::to_text`] shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterKey {
    secret: [u8; 32],
}

impl ClusterKey {
    /// The prefix of the text form of a cluster key.
    pub const PREFIX: &'static str = "millstream-key-1:";

    /// Generates a new key from the operating system's random source.
    ///
    /// # Errors
    /// Returns an error if the system's random source fails, which does not happen on a working machine.
    pub fn generate() -> Result<ClusterKey, KeyTextError> {
        let mut secret = [0; 32];
        SystemRandom::new()
            .fill(&mut secret)
            .map_err(|_| KeyTextError::NoRandomness)?;
        Ok(ClusterKey { secret })
    }

    /// Makes a key from given bytes, for tests and for programs that keep the secret elsewhere.
    pub fn from_bytes(secret: [u8; 32]) -> ClusterKey {
        ClusterKey { secret }
    }

    /// Returns the key as one line of text: `millstream-key-1:` and 64 hexadecimal digits. The line contains
    /// the secret.
    pub fn to_text(&self) -> String {
        format!("{}{}", Self::PREFIX, hex::encode(&self.secret))
    }

    /// Parses the text form of a key. Surrounding white space is ignored.
    ///
    /// # Errors
    /// Returns an error if the text is not such a line. The message never repeats the text, which may be a
    /// mistyped secret.
    ///
    /// ```
    /// use millstream_link::ClusterKey;
    ///
    /// let key = ClusterKey::generate()?;
    /// let again = ClusterKey::from_text(&key.to_text())?;
    /// assert_eq!(again.to_text(), key.to_text());
    /// # Ok::<(), millstream_link::KeyTextError>(())
    /// ```
    pub fn from_text(text: &str) -> Result<ClusterKey, KeyTextError> {
        let digits = text
            .trim()
            .strip_prefix(Self::PREFIX)
            .ok_or(KeyTextError::UnknownForm)?;
        let secret = hex::decode(digits).ok_or(KeyTextError::BadClusterKey)?;
        Ok(ClusterKey { secret })
    }

    /// Returns the key of one role, whose holder can act as `role` only.
    ///
    /// ```
    /// use millstream_link::{ClusterKey, Role};
    ///
    /// let cluster = ClusterKey::generate()?;
    /// let reader = cluster.role_key(Role::Read);
    /// assert_eq!(reader.role(), Role::Read);
    /// assert_ne!(reader.to_text(), cluster.to_text());
    /// # Ok::<(), millstream_link::KeyTextError>(())
    /// ```
    pub fn role_key(&self, role: Role) -> RoleKey {
        let anchors = Role::ALL.map(|each| public_key(&self.subkey(each)));
        RoleKey::new(role, self.subkey(role), anchors)
    }

    fn subkey(&self, role: Role) -> [u8; 32] {
        let salt = hkdf::Salt::new(hkdf::HKDF_SHA256, b"millstream cluster key 1");
        let mut subkey = [0; 32];
        salt.extract(&self.secret)
            .expand(&[b"role ", role.name().as_bytes()], hkdf::HKDF_SHA256)
            .and_then(|okm| okm.fill(&mut subkey))
            .expect("32 bytes are one SHA-256 output, which HKDF always gives");
        subkey
    }
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey(hidden)")
    }
}

impl From<&ClusterKey> for PublicKeys {
    fn from(key: &ClusterKey) -> PublicKeys {
        PublicKeys::from(&key.role_key(Role::Read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_form_round_trips_and_debug_hides_it() {
        let key = ClusterKey::generate().unwrap();
        let text = key.to_text();
        assert_eq!(ClusterKey::from_text(&format!("  {text}\n")), Ok(key.clone()));
        assert!(!format!("{key:?}").contains(&text[17..]));
    }

    #[test]
    fn damaged_texts_are_refused_without_repeating_them() {
        for text in ["", "hello", "millstream-key-1:abc", "millstream-key-2:00"] {
            let error = ClusterKey::from_text(text).unwrap_err().to_string();
            assert!(!error.contains("abc"), "{error}");
        }
    }

    #[test]
    fn derivation_never_changes() {
        let key = ClusterKey::from_bytes([7; 32]);
        let subkeys = Role::ALL.map(|role| key.subkey(role));
        for (place, subkey) in subkeys.iter().enumerate() {
            assert!(!subkeys[..place].contains(subkey), "two roles share a subkey");
            assert_ne!(subkey, &key.secret);
        }
        // The digits are pinned, because a change would lock every existing cluster key out of its cluster.
        assert_eq!(
            hex::encode(&subkeys[0]),
            "9026c4c25a3b08b366c09135653dacd8da9071ea463389bf50821e4619311509"
        );
    }
}
