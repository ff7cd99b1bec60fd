//! The address of a worker's socket and its text: a name that nobody can guess, with the kernel or in a
//! directory.
//!
//! This file does not know whether anybody listens there.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

/// Longest address, in bytes: what the kernel takes, less the byte it ends or begins with.
pub const ADDRESS_BYTES_MAX: usize = 107;

/// The beginning of abstract names, by which people who list the sockets of a host recognise the owner.
const ABSTRACT_PREFIX: &str = "millstream-";

/// The end of the name of a socket in a directory.
const FILE_SUFFIX: &str = ".sock";

/// The address of a worker's socket (D9.1). Its text form is what the control plane carries, and does not
/// look into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShmAddress {
    /// A name that the kernel keeps for as long as the socket lives, seen by its network namespace:
    /// `@millstream-<32 hex digits>`.
    Abstract(SocketName),
    /// A file: its absolute path, that ends in `<32 hex digits>.sock`.
    File(PathBuf),
}

impl ShmAddress {
    /// The file of this name in a directory.
    ///
    /// # Errors
    /// The path is relative, too long for a socket, or has no text form.
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
        // A path with `/` at its end has a file name too, and would print as another text.
        if !path.is_absolute() || is_ours.is_none() || text.contains('\0') || text.ends_with('/') {
            return Err(AddressError::Unknown);
        }
        Ok(Self::File(path.to_owned()))
    }
}

/// The name within a file's name, if it is a worker's socket.
pub(super) fn file_name(name: &str) -> Option<SocketName> {
    SocketName::parse(name.strip_suffix(FILE_SUFFIX)?)
}

/// 128 random bits, written in 32 hexadecimal digits: nobody else can take the name, or meet it by chance.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SocketName(u128);

impl SocketName {
    /// The name of these bits.
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

/// Why a text is no address of a socket.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddressError {
    /// The kernel takes no such address.
    #[error(
        "a socket's address has at most {ADDRESS_BYTES_MAX} bytes, this one would have {0}: choose a directory with a shorter path"
    )]
    TooLong(usize),
    /// The text has neither form.
    #[error(
        "a socket's address is `@millstream-` with 32 hexadecimal digits, or the absolute path of a file whose name is 32 such digits \
         and `.sock`"
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
