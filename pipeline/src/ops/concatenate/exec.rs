//! The execution of `concatenate`, which reads its inputs one after the other.

use super::definition;
use crate::exec::error::ExecError;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::random::mix;
use crate::exec::room::Room;
use crate::exec::state::{StateError, StateReader, StateWriter};

/// The entry of `concatenate` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["concatenate"]],
    decode: definition::decode,
    named: Some(definition::named),
    prepare,
};

fn prepare(_: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    prepared(move |opening| Ok(Box::new(Concatenate::new(opening.inputs()?))))
}

pub(crate) struct Concatenate {
    inputs: Vec<Input>,
    /// The index of the input being read. Equals the number of inputs when the pass has ended.
    current: usize,
}

impl Concatenate {
    pub(crate) fn new(inputs: Vec<Input>) -> Concatenate {
        Concatenate { inputs, current: 0 }
    }
}

impl Iterate for Concatenate {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        while let Some(input) = self.inputs.get_mut(self.current) {
            if let Some(mut item) = input.next()? {
                item.position = of_input(item.position, self.current);
                return Ok(Some(item));
            }
            self.current += 1;
        }
        Ok(None)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.current = 0;
        self.inputs.iter_mut().try_for_each(|input| input.restart())
    }

    fn further(&self) -> Further {
        further_of_any(&self.inputs)
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("concatenate")?;
        state.number(self.current as u64)?;
        self.inputs.iter_mut().try_for_each(|input| input.save(state))
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("concatenate")?;
        // Any index beyond the inputs means the end of the pass.
        self.current = usize::try_from(state.number()?).unwrap_or(usize::MAX);
        self.inputs.iter_mut().try_for_each(|input| input.restore(state))
    }
}

/// Returns the position, among the elements of all inputs, of the element at `position` of input number
/// `input`.
pub(crate) fn of_input(position: u64, input: usize) -> u64 {
    if input == 0 {
        position
    } else {
        // Counts the input down from `u64::MAX`, because `repeat` mixes its passes in as small numbers.
        mix(position, u64::MAX - input as u64)
    }
}

/// Combines the knowledge about further passes of all `inputs`, for an operation that yields the
/// elements of any input.
pub(crate) fn further_of_any(inputs: &[Input]) -> Further {
    let mut known = Further::Nothing;
    for input in inputs {
        match input.further() {
            Further::Behind => return Further::Behind,
            Further::Shared => known = Further::Shared,
            Further::Open if known == Further::Nothing => known = Further::Open,
            Further::Open | Further::Nothing => {}
        }
    }
    known
}
