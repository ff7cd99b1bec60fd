//! The execution of `options`: nothing at all.

use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::room::{Room, named};
use crate::graph::Options;
use crate::graph::codec::decode_params;

/// The room of the operation.
pub(crate) const ROOM: Room = Room {
    names: &[&["options"]],
    decode: decode_params::<Options>,
    named: Some(named::<Options>),
    prepare,
};

fn prepare(_: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    // Options are read where the operations below them are opened.
    prepared(|opening| opening.input())
}
