//! The ways in which a text fails to be a key. Knows no key.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

/// Why a text is not a key. The caller's mistake, except for `NoRandomness`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyTextError {
    /// Neither prefix is there.
    #[error("not a key: expected a line that begins with `millstream-key-1:` or `millstream-role-1:`")]
    UnknownForm,
    /// The cluster key's digits are wrong in number or kind.
    #[error("damaged cluster key: `millstream-key-1:` must be followed by exactly 64 hexadecimal digits")]
    BadClusterKey,
    /// The role key's fields are wrong.
    #[error("damaged role key: expected `millstream-role-1:<role>:<64 digits>:<256 digits>`, {0}")]
    BadRoleKey(&'static str),
    /// The public keys' digits are wrong in number or kind.
    #[error("damaged public keys: `millstream-public-1:` must be followed by exactly 256 hexadecimal digits")]
    BadPublicKeys,
    /// Public keys stand where a key to act with must be.
    #[error("the first key is public, so nobody can act with it: begin with the cluster key or a role key")]
    PublicKeyAlone,
    /// The text lists more keys than a rotation needs.
    #[error(
        "{found} keys are listed, and at most {max} are accepted: remove those that are no longer in use"
    )]
    TooManyKeys {
        /// The number of keys.
        found: usize,
        /// The largest number of keys.
        max: usize,
    },
    /// The operating system gave no random bytes.
    #[error("the operating system gave no random bytes for a new key")]
    NoRandomness,
}
