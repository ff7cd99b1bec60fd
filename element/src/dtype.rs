//! The item types that a tensor may have, with their codes, names and sizes. This file does not know shapes
//! and memory.
//!
//! Codes are part of the wire format: they are never reused or renumbered.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use std::fmt;
use std::str::FromStr;

/// The type of one item of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Dtype {
    /// One byte, 0 or 1.
    Bool = 1,
    /// Signed 8-bit integer.
    I8 = 2,
    /// Signed 16-bit integer.
    I16 = 3,
    /// Signed 32-bit integer.
    I32 = 4,
    /// Signed 64-bit integer.
    I64 = 5,
    /// Unsigned 8-bit integer.
    U8 = 6,
    /// Unsigned 16-bit integer.
    U16 = 7,
    /// Unsigned 32-bit integer.
    U32 = 8,
    /// Unsigned 64-bit integer.
    U64 = 9,
    /// IEEE 754 half precision.
    F16 = 10,
    /// The upper half of an `f32`.
    Bf16 = 11,
    /// IEEE 754 single precision.
    F32 = 12,
    /// IEEE 754 double precision.
    F64 = 13,
    /// 8-bit float, 4 exponent and 3 mantissa bits.
    F8E4M3 = 14,
    /// 8-bit float, 5 exponent and 2 mantissa bits.
    F8E5M2 = 15,
    /// Complex of two `f32`: real, imaginary.
    C64 = 16,
    /// Complex of two `f64`: real, imaginary.
    C128 = 17,
    /// UTF-8 text of variable length.
    String = 18,
    /// Bytes of variable length.
    Bytes = 19,
}

impl Dtype {
    /// Every dtype, in code order.
    pub const ALL: [Dtype; 19] = [
        Dtype::Bool,
        Dtype::I8,
        Dtype::I16,
        Dtype::I32,
        Dtype::I64,
        Dtype::U8,
        Dtype::U16,
        Dtype::U32,
        Dtype::U64,
        Dtype::F16,
        Dtype::Bf16,
        Dtype::F32,
        Dtype::F64,
        Dtype::F8E4M3,
        Dtype::F8E5M2,
        Dtype::C64,
        Dtype::C128,
        Dtype::String,
        Dtype::Bytes,
    ];

    /// Returns the size of one item in bytes; `None` if items vary in length.
    #[must_use]
    pub const fn item_bytes(self) -> Option<usize> {
        match self {
            Dtype::Bool | Dtype::I8 | Dtype::U8 | Dtype::F8E4M3 | Dtype::F8E5M2 => Some(1),
            Dtype::I16 | Dtype::U16 | Dtype::F16 | Dtype::Bf16 => Some(2),
            Dtype::I32 | Dtype::U32 | Dtype::F32 => Some(4),
            Dtype::I64 | Dtype::U64 | Dtype::F64 | Dtype::C64 => Some(8),
            Dtype::C128 => Some(16),
            Dtype::String | Dtype::Bytes => None,
        }
    }

    /// Returns the stable code of the dtype in the wire format.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the dtype with this wire code; `None` for a code that this version does not know.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Dtype> {
        let index = usize::from(code).checked_sub(1)?;
        Dtype::ALL.get(index).copied()
    }

    /// Returns the short name of the dtype, such as `f32`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Dtype::Bool => "bool",
            Dtype::I8 => "i8",
            Dtype::I16 => "i16",
            Dtype::I32 => "i32",
            Dtype::I64 => "i64",
            Dtype::U8 => "u8",
            Dtype::U16 => "u16",
            Dtype::U32 => "u32",
            Dtype::U64 => "u64",
            Dtype::F16 => "f16",
            Dtype::Bf16 => "bf16",
            Dtype::F32 => "f32",
            Dtype::F64 => "f64",
            Dtype::F8E4M3 => "f8e4m3",
            Dtype::F8E5M2 => "f8e5m2",
            Dtype::C64 => "c64",
            Dtype::C128 => "c128",
            Dtype::String => "string",
            Dtype::Bytes => "bytes",
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Dtype {
    type Err = DtypeError;

    fn from_str(name: &str) -> Result<Dtype, DtypeError> {
        let found = Dtype::ALL.into_iter().find(|dtype| dtype.name() == name);
        found.ok_or_else(|| DtypeError::Unknown {
            name: name.chars().take(NAME_SHOWN_CHARS).collect(),
        })
    }
}

/// The error for a name that is not the name of a dtype.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DtypeError {
    /// No dtype has the given name.
    #[error("unknown dtype `{name}`: expected a name such as `u8`, `f32`, `bf16` or `string`")]
    Unknown {
        /// The given name, truncated to a bounded length.
        name: String,
    },
}

/// Maximum number of characters of an unknown name that the error shows.
const NAME_SHOWN_CHARS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_round_trip_and_are_stable() {
        for (index, dtype) in Dtype::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(dtype.code()), index + 1);
            assert_eq!(Dtype::from_code(dtype.code()), Some(dtype));
            assert_eq!(dtype.name().parse(), Ok(dtype));
            assert_eq!(dtype.to_string(), dtype.name());
        }
        assert_eq!(Dtype::F32.code(), 12);
        assert_eq!(Dtype::from_code(0), None);
        assert_eq!(Dtype::from_code(20), None);
        assert!("float".parse::<Dtype>().is_err());
    }
}
