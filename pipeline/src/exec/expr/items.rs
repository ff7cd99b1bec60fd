//! Access to the items of tensors in memory, which are little-endian, and construction of tensors from items.

use half::{bf16, f16};
use millstream_element::Dtype;

use crate::exec::value::{Dims, Inline, Tensor, TensorData, fixed_bytes};

/// Maximum bytes of a computed tensor, which is also the limit of a record.
pub(crate) const TENSOR_BYTES_MAX: usize = 1 << 30;

/// A number as it is stored in a tensor.
pub(crate) trait Item: Copy {
    /// The number of bytes of one item.
    const BYTES: usize;

    /// Reads one item from a slice of exactly [`Item::BYTES`] bytes.
    fn read(bytes: &[u8]) -> Self;

    /// Writes one item to a slice of exactly [`Item::BYTES`] bytes.
    fn write(self, bytes: &mut [u8]);
}

macro_rules! items {
    ($($item:ty,)*) => { $(
        impl Item for $item {
            const BYTES: usize = size_of::<$item>();

            fn read(bytes: &[u8]) -> $item {
                // Callers cut tensors into slices of exactly this length.
                <$item>::from_le_bytes(bytes.try_into().unwrap_or_default())
            }

            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
        }
    )* };
}

items! { i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64, }

impl Item for bool {
    const BYTES: usize = 1;

    fn read(bytes: &[u8]) -> bool {
        bytes.first().is_some_and(|byte| *byte != 0)
    }

    fn write(self, bytes: &mut [u8]) {
        if let Some(byte) = bytes.first_mut() {
            *byte = u8::from(self);
        }
    }
}

/// Returns an iterator over the items in `bytes`.
pub(crate) fn items<T: Item>(bytes: &[u8]) -> impl DoubleEndedIterator<Item = T> + ExactSizeIterator {
    bytes.chunks_exact(T::BYTES).map(T::read)
}

/// Returns a tensor whose bytes `fill` writes. The bytes are zero before the call. A tensor of at most 16
/// bytes needs no allocation.
pub(crate) fn built(
    dtype: Dtype,
    dims: Dims,
    fill: impl FnOnce(&mut [u8]) -> Result<(), String>,
) -> Result<Tensor, String> {
    let size = fixed_bytes(dtype, &dims).filter(|size| *size <= TENSOR_BYTES_MAX);
    let size = size.ok_or_else(|| {
        format!(
            "expected a result of at most {TENSOR_BYTES_MAX} bytes, found {dtype}{:?}",
            dims.as_slice()
        )
    })?;
    let mut small = [0u8; 16];
    let data = match small.get_mut(..size) {
        Some(bytes) => {
            fill(bytes)?;
            Inline::new(bytes).map(TensorData::Inline)
        }
        None => {
            let mut bytes = vec![0; size];
            fill(&mut bytes)?;
            Some(TensorData::Shared(bytes.into()))
        }
    };
    let data = data.ok_or_else(|| "a tensor of at most 16 bytes cannot be stored in place".to_owned())?;
    Ok(Tensor::from_parts(dtype, dims, data))
}

/// Returns the bytes of a tensor of fixed-size items, which must be computed already.
pub(crate) fn bytes_of(tensor: &Tensor) -> Result<&[u8], String> {
    tensor
        .contiguous()
        .ok_or_else(|| "a tensor is not computed yet".to_owned())
}

/// Returns the number of items of a tensor with the dimensions `dims`.
pub(crate) fn count(dims: &[u64]) -> Result<usize, String> {
    let product = dims.iter().try_fold(1usize, |items, dim| {
        usize::try_from(*dim).ok().and_then(|dim| items.checked_mul(dim))
    });
    // A tensor without items may have any other dimensions.
    if dims.contains(&0) {
        return Ok(0);
    }
    product.ok_or_else(|| format!("a tensor of the dimensions {dims:?} is too large"))
}

/// Returns the tensor with its bytes stored in place if they are few.
pub(crate) fn settled(tensor: &Tensor) -> Result<Tensor, String> {
    if tensor.dtype().item_bytes().is_none() {
        return Ok(tensor.clone());
    }
    let bytes = bytes_of(tensor)?;
    if bytes.len() > 16 {
        return Ok(tensor.clone());
    }
    built(tensor.dtype(), Dims::from_slice(tensor.dims()), |into| {
        into.copy_from_slice(bytes);
        Ok(())
    })
}
