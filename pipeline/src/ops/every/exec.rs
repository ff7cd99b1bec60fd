//! `every`: counts elements, and drops all but the first of each group.

use super::definition::Every;
use crate::exec::program::prepared;
use crate::exec::room::{Room, named};
use crate::exec::{ExecError, Further, Input, Item, Iterate, StateError, StateReader, StateWriter};
use crate::graph::codec::decode_params;

pub(crate) const ROOM: Room = Room {
    names: &[&["every"]],
    decode: decode_params::<Every>,
    named: Some(named::<Every>),
    prepare: |preparing| {
        let step = preparing.of::<Every>()?.step.get();
        prepared(move |opening| {
            let (place, input) = (0, opening.input()?);
            Ok(Box::new(Dropping { step, place, input }))
        })
    },
};

struct Dropping {
    step: u64,
    /// Elements of the present group that have come.
    place: u64,
    input: Input,
}

impl Iterate for Dropping {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        while let Some(item) = self.input.next()? {
            self.place = (self.place + 1) % self.step;
            if self.place == 1 % self.step {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.place = 0;
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.number(self.place)?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        self.place = state.number()?;
        self.input.restore(state)
    }
}
