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
            dropped(input)?;
        }
        Ok(())
    }

    /// Drops the elements of the row that failed in input `failed`, so that the next row is aligned.
    fn pass_row(&mut self, failed: usize) -> Result<(), ExecError> {
        for input in self.inputs.iter_mut().skip(failed + 1) {
            if !dropped(input)? {
                self.ended = true;
                break;
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
        for number in 0..self.inputs.len() {
            let Some(input) = self.inputs.get_mut(number) else {
                break;
            };
            match input.next() {
                Ok(Some(item)) => match &mut row {
                    Some(row) => join(row, item),
                    None => row = Some(item),
                },
                Ok(None) => {
                    self.ended = true;
                    return self.complete(number + 1).map(|()| None);
                }
                Err(error) => {
                    row.iter().for_each(|row| token::abandon(&row.marks));
                    if error.is_passable() {
                        self.pass_row(number)?;
                    }
                    return Err(error);
                }
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

/// Drops the next element of `input`. Returns whether there was one.
fn dropped(input: &mut Input) -> Result<bool, ExecError> {
    match input.next() {
        Ok(next) => Ok(next.is_some()),
        Err(error) if error.is_passable() => Ok(true),
        Err(error) => Err(error),
    }
}

/// Appends the components of `item` to `row`, and merges the split marks.
fn join(row: &mut Item, item: Item) {
    row.value.extend(item.value);
    token::merge(&mut row.marks, item.marks);
    row.position = mix(row.position, item.position);
    row.origin = row.origin.take().or(item.origin);
}
