//! `argument`: inside a function's body, what the function was called with: one element, or a window of them.

use std::sync::Arc;

use crate::exec::error::ExecError;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Iterate};
use crate::exec::state::{StateError, StateReader, StateWriter};

pub(crate) struct Argument {
    items: Arc<[Item]>,
    yielded: usize,
}

impl Argument {
    pub(crate) fn new(items: Arc<[Item]>) -> Argument {
        Argument { items, yielded: 0 }
    }
}

impl Iterate for Argument {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        let item = self.items.get(self.yielded).cloned();
        self.yielded += usize::from(item.is_some());
        Ok(item)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.yielded = 0;
        Ok(())
    }

    fn further(&self) -> Further {
        Further::Open
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("argument")?;
        state.number(self.yielded as u64)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("argument")?;
        // Beyond the last one there is nothing more.
        self.yielded = usize::try_from(state.number()?).unwrap_or(usize::MAX);
        Ok(())
    }
}
