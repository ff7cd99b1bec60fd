//! `filter`: keeps the elements for which a registered predicate holds.

use crate::exec::call::guarded;
use crate::exec::cancel::Cancel;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::functions::FilterCall;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::token;

pub(crate) struct Filter {
    name: String,
    call: FilterCall,
    input: Input,
    cancel: Cancel,
}

impl Filter {
    pub(crate) fn new(name: String, call: FilterCall, input: Input, cancel: Cancel) -> Filter {
        Filter {
            name,
            call,
            input,
            cancel,
        }
    }
}

impl Iterate for Filter {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        while let Some(item) = self.input.next()? {
            if holds(&self.name, &self.call, &item)? {
                return Ok(Some(item));
            }
            // It may never hold: leave when told to.
            self.cancel.check(&self.name)?;
        }
        Ok(None)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("filter")?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("filter")?;
        self.input.restore(state)
    }
}

/// Whether the predicate `name` holds for `item`.
pub(super) fn holds(name: &str, call: &FilterCall, item: &Item) -> Result<bool, ExecError> {
    let call = || {
        let answer = call(&item.value);
        answer.map_err(|error| ExecError::new(ErrorKind::UserFunction, name, error.to_string()))
    };
    guarded(name, call).map_err(|error| {
        token::abandon(&item.marks);
        error
            .at(item.origin.as_ref())
            .at_position(item.position)
            .of_element()
    })
}
