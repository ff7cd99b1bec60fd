//! Functions that take components out of elements, and that make tensors for them.

use bytes::Bytes;
use millstream_element::Dtype;

use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::value::{Dims, Inline, Tensor, TensorData, Value};

/// Removes the component at `place` from `value`, and returns it with its data computed.
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

/// Returns the strings of a tensor. The strings share the tensor's bytes.
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

/// Returns a tensor of numbers. A small tensor stores its data in place.
pub(crate) fn fixed(dtype: Dtype, dims: Dims, bytes: Vec<u8>) -> Result<Tensor, String> {
    let expected = crate::exec::value::fixed_bytes(dtype, &dims);
    match Inline::new(&bytes) {
        Some(inline) if expected == Some(bytes.len()) => {
            Ok(Tensor::from_parts(dtype, dims, TensorData::Inline(inline)))
        }
        Some(_) | None => Tensor::fixed(dtype, &dims, bytes),
    }
}
