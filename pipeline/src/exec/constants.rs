//! The tensors that a graph embeds for `tensor_slices`, and the rows of these tensors.

use bytes::Bytes;

use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::value::{Tensor, Value};
use crate::graph::Constant;

/// Returns the tensors of a constant. The rows of each tensor share the bytes of the tensor.
pub(crate) fn tensors(constant: &Constant) -> Result<Vec<Tensor>, String> {
    let mut tensors = Vec::new();
    for (spec, data) in constant.spec.0.components().iter().zip(&constant.tensors) {
        let dims: Option<Vec<u64>> = spec.dims().and_then(|dims| dims.iter().copied().collect());
        let dims = dims.ok_or_else(|| "a tensor has unknown dimensions".to_owned())?;
        tensors.push(match spec.dtype().item_bytes() {
            Some(_) => Tensor::fixed(spec.dtype(), &dims, data.fixed.clone())?,
            None => {
                let items = data
                    .items
                    .iter()
                    .map(|item| Bytes::copy_from_slice(item))
                    .collect();
                Tensor::strings(spec.dtype(), &dims, items)?
            }
        });
    }
    Ok(tensors)
}

/// Returns the row of every tensor at `position`, or `None` if `position` is beyond the end of the shortest
/// tensor.
pub(crate) fn slice(tensors: &[Tensor], position: u64) -> Option<Value> {
    tensors.iter().map(|tensor| tensor.row(position)).collect()
}

/// Returns the element that the graph holds for the operation `op`.
pub(crate) fn value(constant: &Constant, op: &str) -> Result<Value, ExecError> {
    let refused = |reason| ExecError::new(ErrorKind::Caller, op, reason);
    tensors(constant).map(Value::from).map_err(refused)
}
