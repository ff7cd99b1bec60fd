//! The execution of `options`, which forwards its input unchanged.

use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::room::{Room, named};
use crate::graph::Options;
use crate::graph::codec::decode_params;

/// The entry of `options` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["options"]],
    decode: decode_params::<Options>,
    named: Some(named::<Options>),
    prepare,
};

fn prepare(_: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    // The operations below read the options when they are opened.
    prepared(|opening| opening.input())
}
