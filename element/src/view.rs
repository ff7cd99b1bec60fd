//! `TensorView`: one component of an element, with its bytes as typed items. A view cannot outlive or change
//! the element.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use half::{bf16, f16};
use zerocopy::FromBytes;

use crate::dtype::Dtype;
use crate::spec::items_in;
use crate::strings::{Strings, StringsError};

/// One component of an element: dtype, shape and payload. The payload is 64-byte aligned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TensorView<'a> {
    pub(crate) dtype: Dtype,
    pub(crate) dims: &'a [u64],
    pub(crate) bytes: &'a [u8],
}

impl<'a> TensorView<'a> {
    /// Returns the dtype of the component.
    #[must_use]
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns the dimensions, outermost first.
    #[must_use]
    pub fn dims(&self) -> &'a [u64] {
        self.dims
    }

    /// Returns the payload. Fixed-size items are side by side in row-major order, little-endian; `string` and
    /// `bytes` payloads consist of offsets and data.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the number of items, which is the product of the dimensions.
    #[must_use]
    pub fn items(&self) -> usize {
        // Validation has limited the product by the size of the payload, or has found a zero.
        items_in(self.dims.iter().copied().map(Some)).map_or(0, |items| items as usize)
    }

    /// Returns the items as a slice of a Rust type, without a copy. `u8` also reads `bool` and the 8-bit
    /// floats.
    ///
    /// # Errors
    /// [`ViewError::Dtype`] if the type does not match the dtype. [`ViewError::Unaligned`] cannot occur for a
    /// view of an [`Element`](crate::Element).
    pub fn as_slice<T: Item>(&self) -> Result<&'a [T], ViewError> {
        if !T::DTYPES.contains(&self.dtype) {
            return Err(ViewError::Dtype {
                found: self.dtype,
                wanted: T::DTYPES[0],
            });
        }
        <[T]>::ref_from_bytes(self.bytes).map_err(|_| ViewError::Unaligned)
    }

    /// Returns the items of a `string` or `bytes` tensor, after a check of every offset. The cost is
    /// O(items).
    ///
    /// # Errors
    /// [`ViewError::Dtype`] for other dtypes; [`ViewError::Strings`] if an offset is invalid.
    pub fn strings(&self) -> Result<Strings<'a>, ViewError> {
        if !matches!(self.dtype, Dtype::String | Dtype::Bytes) {
            return Err(ViewError::Dtype {
                found: self.dtype,
                wanted: Dtype::String,
            });
        }
        Ok(Strings::open(self.bytes, self.items())?)
    }
}

impl std::fmt::Debug for TensorView<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "TensorView({}{:?}, {} bytes)",
            self.dtype,
            self.dims,
            self.bytes.len()
        )
    }
}

/// The error for a tensor that cannot be viewed as requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// The caller requested a type that does not match the tensor's dtype.
    #[error("the tensor has dtype {found}, which cannot be read as {wanted}")]
    Dtype {
        /// The tensor's dtype.
        found: Dtype,
        /// The requested dtype.
        wanted: Dtype,
    },
    /// The payload is not aligned, or its size is not a multiple of the item size.
    #[error("the payload is not aligned for its items, or its size is not a multiple of the item size")]
    Unaligned,
    /// The producer's string payload is malformed.
    #[error(transparent)]
    Strings(#[from] StringsError),
}

/// A Rust type that items of some dtypes can be read as. Every bit pattern must be a valid value of the type.
/// The trait is sealed.
pub trait Item: sealed::Plain {
    /// The dtypes that the type can read. The first is the type's own dtype.
    const DTYPES: &'static [Dtype];
}

mod sealed {
    /// Plain data, for which any bytes are a valid value.
    pub trait Plain: Copy + zerocopy::FromBytes + zerocopy::Immutable + 'static {}
}

macro_rules! items {
    ($($item:ty => $($dtype:ident),+;)+) => {
        $(
            impl sealed::Plain for $item {}
            impl Item for $item {
                const DTYPES: &'static [Dtype] = &[$(Dtype::$dtype),+];
            }
        )+
    };
}

items! {
    i8 => I8;
    i16 => I16;
    i32 => I32;
    i64 => I64;
    u8 => U8, Bool, F8E4M3, F8E5M2;
    u16 => U16;
    u32 => U32;
    u64 => U64;
    f16 => F16;
    bf16 => Bf16;
    f32 => F32;
    f64 => F64;
    [f32; 2] => C64;
    [f64; 2] => C128;
}

// Payloads are little-endian and are read in place.
const _: () = assert!(cfg!(target_endian = "little"));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HeapAlloc, SlotAlloc};

    #[test]
    fn items_are_read_as_their_own_type_only() {
        let mut slot = HeapAlloc.alloc(16).unwrap();
        slot[..8].copy_from_slice(&[0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0]);
        let view = TensorView {
            dtype: Dtype::F32,
            dims: &[2],
            bytes: &slot[..8],
        };
        assert_eq!(view.as_slice::<f32>(), Ok(&[1.0, -2.0][..]));
        let wrong = view.as_slice::<i32>().unwrap_err();
        assert_eq!(
            wrong,
            ViewError::Dtype {
                found: Dtype::F32,
                wanted: Dtype::I32
            }
        );
        assert!(matches!(view.strings(), Err(ViewError::Dtype { .. })));
        let complex = TensorView {
            dtype: Dtype::C64,
            ..view
        };
        assert_eq!(complex.as_slice::<[f32; 2]>(), Ok(&[[1.0, -2.0]][..]));
        let short = TensorView {
            bytes: &slot[..7],
            ..view
        };
        assert_eq!(short.as_slice::<f32>(), Err(ViewError::Unaligned));
        let bools = TensorView {
            dtype: Dtype::Bool,
            ..view
        };
        assert_eq!(bools.as_slice::<u8>().map(<[u8]>::len), Ok(8));
    }
}
