//! The execution of `enumerate`, which puts before every element its number in the pass. If the dataset
//! is distributed in splits, the numbers count the elements of the task.

use super::definition;
use crate::exec::error::ExecError;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::room::{Room, named};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::value::Tensor;
use crate::graph::codec::decode_params;

/// The entry of `enumerate` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["enumerate"]],
    decode: decode_params::<definition::Enumerate>,
    named: Some(named::<definition::Enumerate>),
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = *preparing.of::<definition::Enumerate>()?;
    prepared(move |opening| Ok(Box::new(Enumerate::new(operation.start, opening.input()?))))
}

pub(crate) struct Enumerate {
    start: i64,
    /// The number of elements yielded so far in this pass.
    seen: u64,
    input: Input,
}

impl Enumerate {
    pub(crate) fn new(start: i64, input: Input) -> Enumerate {
        Enumerate {
            start,
            seen: 0,
            input,
        }
    }
}

impl Iterate for Enumerate {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        let next = self.input.next();
        let number = self.start.wrapping_add_unsigned(self.seen);
        // A failed element has a number too, as in tf.data.
        if next.as_ref().map_or_else(ExecError::is_passable, Option::is_some) {
            self.seen = self.seen.wrapping_add(1);
        }
        let Some(mut item) = next? else {
            return Ok(None);
        };
        item.value.insert(0, Tensor::i64(number));
        Ok(Some(item))
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.seen = 0;
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("enumerate")?;
        state.number(self.seen)?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("enumerate")?;
        self.seen = state.number()?;
        self.input.restore(state)
    }
}
