//! The execution of `range`, which computes each integer from its position.

use super::definition;
use crate::exec::positions::numbers;
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::room::{Room, named};
use crate::graph::codec::decode_params;

/// The entry of `range` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["range"]],
    decode: decode_params::<definition::Range>,
    named: Some(named::<definition::Range>),
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = *preparing.of::<definition::Range>()?;
    prepared(move |opening| {
        let cursor = opening.cursor(operation.len());
        let value = move |position| operation.value(position);
        Ok(numbers("range", value, cursor, opening.order()))
    })
}
