//! The address of a worker's socket and its text form: an unguessable name, either abstract or a file in a
//! directory.
//!
//! The module does not know whether a process listens at the address.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

/// Maximum length of an address, in bytes. The kernel's limit is one byte more, which begins or ends the
/// name.
pub const ADDRESS_BYTES_MAX: usize = 107;

/// The prefix of abstract names, by which people recognise the owner in a list of the host's sockets.
const ABSTRACT_PREFIX: &str = "millstream-";

/// The suffix of the file name of a socket in a directory.
const FILE_SUFFIX: &str = ".sock";

/// The address of a worker's socket (D9.1). The control plane carries the text form without parsing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShmAddress {
    /// An abstract name, `@millstream-<32 hex digits>`. The kernel keeps the name as long as the socket
    /// lives, and only the socket's network namespace sees the name.
    Abstract(SocketName),
    /// The absolute path of a file whose name is `<32 hex digits>.sock`.
    File(PathBuf),
}

impl ShmAddress {
    /// Returns the address of the file with this name in a directory.
    ///
    /// # Errors
    /// Returns an error if the path is relative, too long for a socket, or not valid UTF-8.
    pub(super) fn in_directory(directory: &Path, name: SocketName) -> Result<Self, AddressError> {
        let path = directory.join(format!("{name}{FILE_SUFFIX}"));
        let text = path.to_str().ok_or(AddressError::Unknown)?;
        text.parse()
    }
}

impl fmt::Display for ShmAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Abstract(name) => write!(f, "@{ABSTRACT_PREFIX}{name}"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

impl FromStr for ShmAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.len() > ADDRESS_BYTES_MAX {
            return Err(AddressError::TooLong(text.len()));
        }
        if let Some(name) = text.strip_prefix('@') {
            let name = name.strip_prefix(ABSTRACT_PREFIX).and_then(SocketName::parse);
            return name.map(Self::Abstract).ok_or(AddressError::Unknown);
        }
        let path = Path::new(text);
        let is_ours = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(file_name);
        // A path with a trailing `/` has a file name too, but its text form would differ from the input.
        if !path.is_absolute() || is_ours.is_none() || text.contains('\0') || text.ends_with('/') {
            return Err(AddressError::Unknown);
        }
        Ok(Self::File(path.to_owned()))
    }
}

/// Returns the socket's name in the name of a file, if the file is a worker's socket.
pub(super) fn file_name(name: &str) -> Option<SocketName> {
    SocketName::parse(name.strip_suffix(FILE_SUFFIX)?)
}

/// A name of 128 random bits, written as 32 hexadecimal digits. No other process can guess the name, or
/// choose the same name by chance.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SocketName(u128);

impl SocketName {
    /// Makes the name with these bits.
    pub(super) fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// Returns the abstract name in the kernel's form.
    pub(super) fn abstract_name(self) -> Vec<u8> {
        format!("{ABSTRACT_PREFIX}{self}").into_bytes()
    }

    fn parse(digits: &str) -> Option<Self> {
        let is_lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        (digits.len() == 32 && digits.bytes().all(is_lower_hex))
            .then(|| u128::from_str_radix(digits, 16).ok())
            .flatten()
            .map(Self)
    }
}

impl fmt::Display for SocketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for SocketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The reason for which a text is not the address of a socket.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddressError {
    /// The address is longer than the kernel accepts.
    #[error(
        "expected a socket's address of at most {ADDRESS_BYTES_MAX} bytes, found {0} bytes: choose a directory with a shorter path"
    )]
    TooLong(usize),
    /// The text is neither an abstract name nor the path of a socket.
    #[error(
        "invalid address of a socket: expected `@millstream-` and 32 hexadecimal digits, or the absolute path of a file whose name \
         is 32 hexadecimal digits and `.sock`"
    )]
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_address_is_refused() {
        let digits = "0123456789abcdef0123456789abcdef";
        let long = format!("/{}/{digits}.sock", "d".repeat(ADDRESS_BYTES_MAX));
        assert_eq!(long.parse::<ShmAddress>(), Err(AddressError::TooLong(long.len())));
        for wrong in [
            String::new(),
            "@".into(),
            digits.into(),
            format!("@{digits}"),
            format!("@millstream-{}", &digits[1..]),
            format!("@millstream-{}", digits.to_uppercase()),
            format!("@millstream-+{}", &digits[1..]),
            format!("{digits}.sock"),
            format!("run/{digits}.sock"),
            format!("/run/{digits}"),
            format!("/run/{digits}.sock/"),
            format!("/r\0n/{digits}.sock"),
            "/run/docker.sock".into(),
        ] {
            assert_eq!(
                wrong.parse::<ShmAddress>(),
                Err(AddressError::Unknown),
                "{wrong:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn an_address_is_what_its_text_says(bits: u128, folder in "(/[a-z .-]{1,8}){1,4}") {
            let name = SocketName::from_bits(bits);
            let file = ShmAddress::in_directory(Path::new(&folder), name).unwrap();
            for address in [ShmAddress::Abstract(name), file] {
                prop_assert_eq!(address.to_string().parse(), Ok(address));
            }
        }

        #[test]
        fn any_text_is_an_address_or_an_error(text in ".{0,120}") {
            if let Ok(address) = text.parse::<ShmAddress>() {
                prop_assert_eq!(address.to_string(), text);
            }
        }
    }
}
