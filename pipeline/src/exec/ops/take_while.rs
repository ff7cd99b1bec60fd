//! `take_while`: the elements of every pass before the first for which a predicate does not hold. Of a split
//! dataset, those of every task.

use crate::exec::cancel::Cancel;
use crate::exec::context::Shared;
use crate::exec::error::ExecError;
use crate::exec::faults::Faults;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::state::{StateError, StateReader, StateWriter};

use super::filter::{Test, holds};

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
                // It may fail for ever: leave when told to.
                None => self.cancel.check("take_while")?,
            }
        }
        Ok(None)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.ended = false;
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
