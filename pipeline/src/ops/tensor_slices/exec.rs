//! The execution of `tensor_slices`, which yields the slices of constant tensors in the graph.

use super::definition;
use crate::exec::constants;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::positions::Positions;
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::room::Room;
use crate::graph::codec::decode_params;

/// The entry of `tensor_slices` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["tensor_slices"]],
    decode: decode_params::<definition::TensorSlices>,
    named: None,
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = preparing.of::<definition::TensorSlices>()?.clone();
    let tensors = constants::tensors(&operation.constant);
    let refused = |reason| ExecError::new(ErrorKind::Caller, "tensor_slices", reason);
    let tensors = tensors.map_err(refused)?;
    let count = operation.constant.slices().map_err(refused)?;
    prepared(move |opening| {
        let tensors = tensors.clone();
        let value = move |position| constants::slice(&tensors, position);
        Ok(Box::new(Positions::new(
            "tensor_slices",
            value,
            opening.cursor(count),
            opening.order(),
        )))
    })
}
