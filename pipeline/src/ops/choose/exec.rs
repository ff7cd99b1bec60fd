//! The execution of `choose`, which picks each element from one of its inputs.

use super::definition;
use crate::exec::error::ExecError;
use crate::exec::iterate::Input;
use crate::exec::program::Program;
use crate::exec::program::{OpenError, Opening, Prepared, Preparing};
use crate::exec::room::Room;
use crate::ops::sample::pick::{Choices, Pick};
use std::sync::Arc;

/// The entry of `choose` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["choose"]],
    decode: definition::decode,
    named: None,
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = preparing.of::<definition::Choosing>()?;
    Ok(Box::new(WithChoosing {
        function: preparing.body(&operation.choices, None)?,
        operation: operation.clone(),
    }))
}

struct WithChoosing {
    operation: definition::Choosing,
    function: Arc<Program>,
}

impl Prepared for WithChoosing {
    fn open(&self, opening: &Opening<'_>) -> Result<Input, ExecError> {
        let inputs = opening.inputs()?;
        // Every task reads all of the choices, with random draws of its own.
        let within = opening.own_shared().within(opening.drawn() as u64, 0);
        let numbers = self.function.open(&within, None)?;
        let picks = Choices::new(numbers, inputs.len(), within.node);
        let stop_on_empty = self.operation.params.stop_on_empty;
        Ok(Box::new(Pick::new(
            picks,
            inputs,
            stop_on_empty,
            opening.shared.cancel.clone(),
        )))
    }

    fn listings(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        self.function.listings()
    }
}
