//! The execution of `padded_batch`, which pads consecutive elements to one shape and stacks them.

use crate::exec::error::ExecError;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Iterate};
use crate::exec::state::{StateError, StateReader, StateWriter};

use super::definition;
use crate::exec::padding::Padding;
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::room::{Room, named};
use crate::exec::rows::Rows;
use crate::graph::codec::decode_params;

/// The entry of `padded_batch` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["padded_batch"]],
    decode: decode_params::<definition::PaddedBatch>,
    named: Some(named::<definition::PaddedBatch>),
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = preparing.of::<definition::PaddedBatch>()?.clone();
    prepared(move |opening| {
        let shared = &opening.own_shared();
        let padding = Padding::new(&operation, opening.input_spec()?)?;
        let rows = Rows::new(operation.size, operation.drop_remainder, opening.input()?, shared);
        Ok(Box::new(PaddedBatch::new(padding, rows)))
    })
}

const OP: &str = "padded_batch";

pub(crate) struct PaddedBatch {
    padding: Padding,
    rows: Rows,
}

impl PaddedBatch {
    pub(crate) fn new(padding: Padding, rows: Rows) -> PaddedBatch {
        PaddedBatch { padding, rows }
    }
}

impl Iterate for PaddedBatch {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        while let Some(rows) = self.rows.next(OP)? {
            if let Some(batch) = self.padding.stack(OP, rows, &self.rows.faults)? {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.rows.input.restart()
    }

    fn further(&self) -> Further {
        self.rows.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin(OP)?;
        self.rows.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin(OP)?;
        self.rows.input.restore(state)
    }
}
