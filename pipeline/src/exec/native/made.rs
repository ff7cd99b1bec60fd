//! Components taken from elements, and tensors made for them.

use bytes::Bytes;
use millstream_element::Dtype;

use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::value::{Dims, Inline, Tensor, TensorData, Value};

/// Takes the component at `place`, computed, out of `value`.
pub(crate) fn taken(op: &str, value: &mut Value, place: usize) -> Result<Tensor, ExecError> {
    if place >= value.len() {
        return Err(ExecError::new(
            ErrorKind::Internal,
            op,
            "the component is missing",
        ));
    }
    value.remove(place).settled()
}

/// The strings of a tensor, sharing their bytes.
pub(crate) fn items(tensor: &Tensor) -> Vec<Bytes> {
    match tensor.data() {
        TensorData::Shared(bytes) => vec![bytes.clone()],
        TensorData::Strings(items) => items.handles().collect(),
        TensorData::Inline(_) | TensorData::Rows(_) | TensorData::Fill(_) => {
            let mut items = Vec::new();
            tensor.for_each_string(&mut |item| items.push(Bytes::copy_from_slice(item)));
            items
        }
    }
}

/// A tensor of numbers, in place if it is small.
pub(crate) fn fixed(dtype: Dtype, dims: Dims, bytes: Vec<u8>) -> Result<Tensor, String> {
    let expected = crate::exec::value::fixed_bytes(dtype, &dims);
    match Inline::new(&bytes) {
        Some(inline) if expected == Some(bytes.len()) => {
            Ok(Tensor::from_parts(dtype, dims, TensorData::Inline(inline)))
        }
        Some(_) | None => Tensor::fixed(dtype, &dims, bytes),
    }
}
