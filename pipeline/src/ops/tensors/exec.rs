//! The execution of `tensors`, which yields one constant element in the graph.

use super::definition;
use crate::exec::constants;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::positions::Positions;
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::room::Room;
use crate::exec::value::Value;
use crate::graph::codec::decode_params;

/// The entry of `tensors` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["tensors"]],
    decode: decode_params::<definition::Tensors>,
    named: None,
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = preparing.of::<definition::Tensors>()?.clone();
    let tensors = constants::tensors(&operation.constant);
    let refused = |reason| ExecError::new(ErrorKind::Caller, "tensors", reason);
    let tensors = tensors.map_err(refused)?;
    let element = Value::from(tensors);
    prepared(move |opening| {
        let element = element.clone();
        let value = move |_| Some(element.clone());
        Ok(Box::new(Positions::new(
            "tensors",
            value,
            opening.cursor(1),
            opening.order(),
        )))
    })
}
