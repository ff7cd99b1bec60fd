//! `filter`: keeps the elements for which a predicate holds.

use std::sync::Arc;

use crate::exec::call::guarded;
use crate::exec::cancel::Cancel;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::expr::Verdict;
use crate::exec::functions::FilterCall;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::token;

/// A predicate ready to be asked.
#[derive(Clone)]
pub(crate) enum Test {
    /// A registered one, of this name.
    Registered(String, FilterCall),
    /// An expression.
    Expr(Arc<Verdict>),
}

pub(crate) struct Filter {
    test: Test,
    input: Input,
    cancel: Cancel,
}

impl Filter {
    pub(crate) fn new(test: Test, input: Input, cancel: Cancel) -> Filter {
        Filter { test, input, cancel }
    }
}

impl Iterate for Filter {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        while let Some(item) = self.input.next()? {
            if holds("filter", &self.test, &item)? {
                return Ok(Some(item));
            }
            // It may never hold: leave when told to.
            self.cancel.check("filter")?;
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

/// Whether `test`, which the operation `op` asks, holds for `item`.
pub(super) fn holds(op: &str, test: &Test, item: &Item) -> Result<bool, ExecError> {
    let answer = match test {
        Test::Registered(name, call) => guarded(name, || {
            let answer = call(&item.value);
            answer.map_err(|error| ExecError::new(ErrorKind::UserFunction, &**name, error.to_string()))
        }),
        Test::Expr(verdict) => guarded(op, || verdict.holds(op, &item.value)),
    };
    answer.map_err(|error| {
        token::abandon(&item.marks);
        error
            .at(item.origin.as_ref())
            .at_position(item.position)
            .of_element()
    })
}
