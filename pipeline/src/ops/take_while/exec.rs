//! The execution of `take_while`, which ends every pass before the first element for which a predicate
//! does not hold. If the dataset is distributed in splits, each task ends its passes separately.

use crate::exec::cancel::Cancel;
use crate::exec::context::Shared;
use crate::exec::error::ExecError;
use crate::exec::faults::Faults;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::state::{StateError, StateReader, StateWriter};

use super::definition;
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::room::Room;
use crate::ops::filter::exec::test;
use crate::ops::filter::exec::{Test, holds};

/// The entry of `take_while` and `take_while_expr` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["take_while", "take_while_expr"]],
    decode: definition::decode,
    named: None,
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let predicate = &preparing.of::<definition::TakeWhile>()?.0;
    let test = test(predicate, preparing)?;
    prepared(move |opening| {
        let input = opening.input()?;
        Ok(Box::new(TakeWhile::new(
            test.clone(),
            input,
            &opening.own_shared(),
        )))
    })
}

pub(crate) struct TakeWhile {
    test: Test,
    ended: bool,
    input: Input,
    cancel: Cancel,
    faults: Faults,
}

impl TakeWhile {
    pub(crate) fn new(test: Test, input: Input, shared: &Shared) -> TakeWhile {
        TakeWhile {
            test,
            ended: false,
            input,
            cancel: shared.cancel.clone(),
            faults: shared.faults(),
        }
    }
}

impl Iterate for TakeWhile {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        while !self.ended {
            let Some(item) = self.input.next()? else {
                return Ok(None);
            };
            match holds("take_while", &self.test, &item, &self.faults)? {
                Some(true) => return Ok(Some(item)),
                Some(false) => self.ended = true,
                // The predicate may fail for every element, so the loop checks for cancellation.
                None => self.cancel.check("take_while")?,
            }
        }
        Ok(None)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.ended = false;
        self.faults.next_pass();
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("take_while")?;
        state.flag(self.ended)?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("take_while")?;
        self.ended = state.flag()?;
        self.input.restore(state)
    }
}
