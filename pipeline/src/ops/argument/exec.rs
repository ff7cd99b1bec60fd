//! The execution of `argument`: inside a function's body, yields the element or the window that the
//! function was called with.

use std::sync::Arc;

use super::definition;
use crate::exec::error::ExecError;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Iterate};
use crate::exec::program::unprepared;
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::room::Room;
use crate::exec::state::{StateError, StateReader, StateWriter};

/// The entry of `argument` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["argument"]],
    decode: definition::decode,
    named: None,
    prepare,
};

fn prepare(_: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    prepared(move |opening| {
        let items = opening.argument.cloned().ok_or_else(|| unprepared("argument"))?;
        Ok(Box::new(Argument::new(items)))
    })
}

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
        // A saved number beyond the last item means that the pass has ended.
        self.yielded = usize::try_from(state.number()?).unwrap_or(usize::MAX);
        Ok(())
    }
}
