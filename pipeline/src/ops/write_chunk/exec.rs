//! The preparation of `write_chunk`: checks that the operation runs on a whole dataset or on a single split.

use super::definition::WriteChunk;
use crate::exec::error::ExecError;
use crate::exec::iterate::Input;
use crate::exec::program::{OpenError, Opening, Prepared, Preparing, prepared};
use crate::exec::room::{Room, named};
use crate::graph::codec::decode_params;

/// The entry of `write_chunk` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["write_chunk"]],
    decode: decode_params::<WriteChunk>,
    named: Some(named::<WriteChunk>),
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = preparing.of::<WriteChunk>()?.clone();
    if !cfg!(feature = "saved") {
        let (op, feature) = ("write_chunk", "saved");
        return Err(OpenError::Feature { op, feature });
    }
    prepared(move |opening| opened(&operation, opening))
}

#[cfg(feature = "saved")]
fn opened(operation: &WriteChunk, opening: &Opening<'_>) -> Result<Input, ExecError> {
    use crate::exec::error::ErrorKind;
    use crate::exec::keeping::permitted;

    let shared = opening.shared;
    if shared.feed.is_some() && shared.split.is_none() {
        let message = "expected an exactly-once job, in which each split has a chunk of its own, found a job whose \
                       workers mix splits: read the dataset with visitation \"exactly_once\"";
        return Err(ExecError::new(ErrorKind::Caller, "write_chunk", message));
    }
    permitted("write_chunk", &operation.path, shared)?;
    let spec = opening.input_spec()?.clone();
    Ok(Box::new(super::writing::WriteChunk::new(
        operation,
        spec,
        opening.input()?,
        shared,
    )))
}

#[cfg(not(feature = "saved"))]
fn opened(_: &WriteChunk, _: &Opening<'_>) -> Result<Input, ExecError> {
    Err(crate::exec::program::unprepared("write_chunk"))
}
