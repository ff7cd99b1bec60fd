//! The execution of `zip`, which combines one element of each input until the first input ends. Drops
//! the elements of the last, incomplete row. If a later input keeps its elements in a cache, that input
//! is read once more. The input then notices its end and completes its cache.

use super::definition;
use crate::exec::error::ExecError;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::random::mix;
use crate::exec::room::{Room, named};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::token;
use crate::graph::codec::decode_params;

/// The entry of `zip` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["zip"]],
    decode: decode_params::<definition::Zip>,
    named: Some(named::<definition::Zip>),
    prepare,
};

fn prepare(_: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    prepared(|opening| Ok(Box::new(Zip::new(opening.inputs()?, opening.keeps()))))
}

pub(crate) struct Zip {
    inputs: Vec<Input>,
    /// Whether each input keeps its elements for later passes.
    keeps: Vec<bool>,
    /// Whether an input has ended in this pass. Other inputs may have more elements.
    ended: bool,
}

impl Zip {
    /// Makes the iterator of `inputs`. `keeps` states for each input whether the input keeps elements
    /// for later passes.
    pub(crate) fn new(inputs: Vec<Input>, keeps: Vec<bool>) -> Zip {
        Zip {
            inputs,
            keeps,
            ended: false,
        }
    }

    /// Reads one element from each keeping input from number `first` on, so that an input at its end
    /// notices its end.
    fn complete(&mut self, first: usize) -> Result<(), ExecError> {
        let inputs = self.inputs.iter_mut().zip(&self.keeps).skip(first);
        for (input, _) in inputs.filter(|(_, keeps)| **keeps) {
            match input.next() {
                Err(error) if !error.is_passable() => return Err(error),
                // The row is incomplete, so the element is dropped.
                Ok(_) | Err(_) => {}
            }
        }
        Ok(())
    }
}

impl Iterate for Zip {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        if self.ended {
            return Ok(None);
        }
        let mut row: Option<Item> = None;
        for (number, input) in self.inputs.iter_mut().enumerate() {
            let next = input
                .next()
                .inspect_err(|_| row.iter().for_each(|row| token::abandon(&row.marks)))?;
            let Some(item) = next else {
                self.ended = true;
                return self.complete(number + 1).map(|()| None);
            };
            match &mut row {
                Some(row) => join(row, item),
                None => row = Some(item),
            }
        }
        Ok(row)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.ended = false;
        self.inputs.iter_mut().try_for_each(|input| input.restart())
    }

    fn further(&self) -> Further {
        let further = |wanted| self.inputs.iter().any(|input| input.further() == wanted);
        if further(Further::Nothing) {
            Further::Nothing
        } else if further(Further::Behind) {
            Further::Behind
        } else if further(Further::Shared) {
            Further::Shared
        } else {
            Further::Open
        }
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("zip")?;
        state.flag(self.ended)?;
        self.inputs.iter_mut().try_for_each(|input| input.save(state))
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("zip")?;
        self.ended = state.flag()?;
        self.inputs.iter_mut().try_for_each(|input| input.restore(state))
    }
}

/// Appends the components of `item` to `row`, and merges the split marks.
fn join(row: &mut Item, item: Item) {
    row.value.extend(item.value);
    token::merge(&mut row.marks, item.marks);
    row.position = mix(row.position, item.position);
    row.origin = row.origin.take().or(item.origin);
}
