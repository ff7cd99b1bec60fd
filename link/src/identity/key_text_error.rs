//! The error of a text that is not a key.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// The reason for which a text is not a key. The caller is at fault, except for `NoRandomness`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyTextError {
    /// The text has no known prefix.
    #[error("not a key: expected a line that begins with `millstream-key-1:` or `millstream-role-1:`")]
    UnknownForm,
    /// The cluster key has a wrong number of digits, or characters that are not digits.
    #[error("damaged cluster key: `millstream-key-1:` must be followed by exactly 64 hexadecimal digits")]
    BadClusterKey,
    /// A field of the role key is invalid.
    #[error("damaged role key: expected `millstream-role-1:<role>:<64 digits>:<256 digits>`, {0}")]
    BadRoleKey(&'static str),
    /// The public keys have a wrong number of digits, or characters that are not digits.
    #[error("damaged public keys: `millstream-public-1:` must be followed by exactly 256 hexadecimal digits")]
    BadPublicKeys,
    /// The first key is a public key, but must be a key to act with.
    #[error(
        "the first key is a public key, which cannot be used to act: begin with the cluster key or a role key"
    )]
    PublicKeyAlone,
    /// The text lists more keys than a rotation needs.
    #[error(
        "{found} keys are listed, and at most {max} are accepted: remove those that are no longer in use"
    )]
    TooManyKeys {
        /// The number of keys in the text.
        found: usize,
        /// The maximum number of keys.
        max: usize,
    },
    /// The operating system provided no random bytes.
    #[error("the operating system provided no random bytes for a new key")]
    NoRandomness,
}
