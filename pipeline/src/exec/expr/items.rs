//! Items of tensors as they lie in memory, little-endian, and tensors made of them.

use half::{bf16, f16};
use millstream_element::Dtype;

use crate::exec::value::{Dims, Inline, Tensor, TensorData, fixed_bytes};

/// Bytes of a tensor that is computed: what a record may have.
pub(crate) const TENSOR_BYTES_MAX: usize = 1 << 30;

/// A number as it lies in a tensor.
pub(crate) trait Item: Copy {
    /// Bytes of one.
    const BYTES: usize;

    /// Reads one of exactly [`Item::BYTES`].
    fn read(bytes: &[u8]) -> Self;

    /// Writes one to exactly [`Item::BYTES`].
    fn write(self, bytes: &mut [u8]);
}

macro_rules! items {
    ($($item:ty,)*) => { $(
        impl Item for $item {
            const BYTES: usize = size_of::<$item>();

            fn read(bytes: &[u8]) -> $item {
                // Code that cuts a tensor into items cuts it into pieces of this length.
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

/// The items that `bytes` are.
pub(crate) fn items<T: Item>(bytes: &[u8]) -> impl DoubleEndedIterator<Item = T> + ExactSizeIterator {
    bytes.chunks_exact(T::BYTES).map(T::read)
}

/// A tensor whose bytes, zeros at first, are what `fill` makes of them. Of 16 bytes and less nothing is
/// allocated.
pub(crate) fn built(
    dtype: Dtype,
    dims: Dims,
    fill: impl FnOnce(&mut [u8]) -> Result<(), String>,
) -> Result<Tensor, String> {
    let size = fixed_bytes(dtype, &dims).filter(|size| *size <= TENSOR_BYTES_MAX);
    let size = size.ok_or_else(|| {
        format!(
            "the result {dtype}{:?} is too large, a tensor has at most {TENSOR_BYTES_MAX} bytes",
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
    let data = data.ok_or_else(|| "a small tensor does not fit its place".to_owned())?;
    Ok(Tensor::from_parts(dtype, dims, data))
}

/// The bytes of a tensor of items of a fixed size, which are computed by now.
pub(crate) fn bytes_of(tensor: &Tensor) -> Result<&[u8], String> {
    tensor
        .contiguous()
        .ok_or_else(|| "a tensor is not computed".to_owned())
}

/// Returns how many items these dimensions have.
pub(crate) fn count(dims: &[u64]) -> Result<usize, String> {
    let product = dims.iter().try_fold(1usize, |items, dim| {
        usize::try_from(*dim).ok().and_then(|dim| items.checked_mul(dim))
    });
    // A tensor of no items may have any other dimensions.
    if dims.contains(&0) {
        return Ok(0);
    }
    product.ok_or_else(|| format!("a tensor of the dimensions {dims:?} is too large"))
}

/// The tensor with its bytes held in place if they are few.
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
