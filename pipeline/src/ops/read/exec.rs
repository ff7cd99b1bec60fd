//! The execution of `read`, which reads files in the format of the operation.

use super::definition;
use crate::exec::format;
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::room::Room;
use crate::graph::Format;

/// The entry of all formats in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[Format::NAMES],
    decode: definition::decode,
    named: Some(definition::named),
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let format = preparing.of::<definition::Read>()?.0.clone();
    if let Some(feature) = format::missing_feature(&format) {
        let op = format.op_name();
        return Err(OpenError::Feature { op, feature });
    }
    prepared(move |opening| {
        let input = opening.input()?;
        format::reading(&format, opening.spec(), input, &opening.own_shared())
    })
}
