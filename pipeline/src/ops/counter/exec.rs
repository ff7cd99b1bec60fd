//! The execution of `counter`, which computes each integer from its position.

use super::definition;
use crate::exec::positions::numbers;
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::room::{Room, named};
use crate::graph::codec::decode_params;

/// The entry of `counter` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["counter"]],
    decode: decode_params::<definition::Counter>,
    named: Some(named::<definition::Counter>),
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = *preparing.of::<definition::Counter>()?;
    prepared(move |opening| {
        let value = move |position| operation.value(position);
        Ok(numbers(
            "counter",
            value,
            opening.cursor(u64::MAX),
            opening.order(),
        ))
    })
}
