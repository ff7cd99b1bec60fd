//! The execution of `take`, which yields the first elements of every pass. If the dataset is
//! distributed in splits, each task yields its own first elements.

use super::definition;
use crate::exec::error::ExecError;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::room::{Room, named};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::graph::codec::decode_params;

/// The entry of `take` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["take"]],
    decode: decode_params::<definition::Take>,
    named: Some(named::<definition::Take>),
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = *preparing.of::<definition::Take>()?;
    prepared(move |opening| Ok(Box::new(Take::new(operation.count, opening.input()?))))
}

pub(crate) struct Take {
    count: u64,
    taken: u64,
    input: Input,
}

impl Take {
    pub(crate) fn new(count: u64, input: Input) -> Take {
        Take {
            count,
            taken: 0,
            input,
        }
    }
}

impl Iterate for Take {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        if self.taken >= self.count {
            return Ok(None);
        }
        let item = self.input.next()?;
        match item {
            Some(_) => self.taken += 1,
            None => self.taken = self.count,
        }
        Ok(item)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.taken = 0;
        self.input.restart()
    }

    fn further(&self) -> Further {
        if self.count == 0 {
            Further::Nothing
        } else {
            self.input.further()
        }
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("take")?;
        state.number(self.taken)?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("take")?;
        self.taken = state.number()?;
        self.input.restore(state)
    }
}
