//! The execution of `filter`, which keeps the elements for which a predicate holds.

use std::sync::Arc;

use super::definition;
use crate::exec::call::guarded;
use crate::exec::cancel::Cancel;
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::expr::Verdict;
use crate::exec::faults::Faults;
use crate::exec::functions::FilterCall;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::room::Room;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::graph::Predicate;

/// The entry of `filter` and `filter_expr` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["filter", "filter_expr"]],
    decode: definition::decode,
    named: None,
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let predicate = &preparing.of::<definition::Filter>()?.0;
    let test = test(predicate, preparing)?;
    prepared(move |opening| {
        let input = opening.input()?;
        Ok(Box::new(Filter::new(test.clone(), input, &opening.own_shared())))
    })
}

/// Prepares the predicate of a `filter` or `take_while`.
pub(crate) fn test(predicate: &Predicate, preparing: &Preparing<'_>) -> Result<Test, OpenError> {
    let input = preparing.input()?;
    Ok(match predicate {
        Predicate::Registered(registered) => {
            let name = registered.function.clone();
            let call = preparing.means.prepare_filter(&name, &registered.params, input)?;
            Test::Registered(name, call)
        }
        Predicate::Expr(expr) => Test::Expr(Arc::new(Verdict::new(expr, input)?)),
    })
}

/// A predicate that is ready to be called.
#[derive(Clone)]
pub(crate) enum Test {
    /// A registered predicate with its name.
    Registered(String, FilterCall),
    /// An expression.
    Expr(Arc<Verdict>),
}

pub(crate) struct Filter {
    test: Test,
    input: Input,
    cancel: Cancel,
    faults: Faults,
}

impl Filter {
    pub(crate) fn new(test: Test, input: Input, shared: &Shared) -> Filter {
        Filter {
            test,
            input,
            cancel: shared.cancel.clone(),
            faults: shared.faults(),
        }
    }
}

impl Iterate for Filter {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        while let Some(item) = self.input.next()? {
            if holds("filter", &self.test, &item, &self.faults)? == Some(true) {
                return Ok(Some(item));
            }
            // The predicate may never hold, so the loop checks for cancellation.
            self.cancel.check("filter")?;
        }
        Ok(None)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.faults.next_pass();
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

/// Returns whether `test`, a predicate of the operation `op`, holds for `item`. Returns `None` if `faults`
/// leave the element out, for example because the predicate failed.
pub(crate) fn holds(op: &str, test: &Test, item: &Item, faults: &Faults) -> Result<Option<bool>, ExecError> {
    if faults.excludes(|| op.to_owned(), item.position) {
        return Ok(None);
    }
    let answer = faults.tried(|_| match test {
        Test::Registered(name, call) => guarded(name, || {
            let answer = call(&item.value);
            answer.map_err(|error| ExecError::new(ErrorKind::UserFunction, &**name, error.to_string()))
        }),
        Test::Expr(verdict) => guarded(op, || verdict.holds(op, &item.value)),
    });
    answer.map(Some).or_else(|error| {
        let error = error.at(item.origin.as_ref()).at_position(item.position);
        faults.leave_out(error, &item.marks).map(|()| None)
    })
}
