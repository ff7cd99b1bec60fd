//! `argument`: inside a function's body, the one element the function was called with.

use crate::exec::error::ExecError;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Iterate};
use crate::exec::state::{StateError, StateReader, StateWriter};

pub(crate) struct Argument {
    item: Item,
    yielded: bool,
}

impl Argument {
    pub(crate) fn new(item: Item) -> Argument {
        Argument { item, yielded: false }
    }
}

impl Iterate for Argument {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        if self.yielded {
            return Ok(None);
        }
        self.yielded = true;
        Ok(Some(self.item.clone()))
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.yielded = false;
        Ok(())
    }

    fn further(&self) -> Further {
        Further::Open
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("argument")?;
        state.flag(self.yielded)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("argument")?;
        self.yielded = state.flag()?;
        Ok(())
    }
}
