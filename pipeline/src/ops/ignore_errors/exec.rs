//! The execution of `ignore_errors`, which skips elements that fail. Forwards errors that no single
//! element causes.

use super::definition;
use crate::exec::cancel::Cancel;
use crate::exec::context::Shared;
use crate::exec::error::ExecError;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::room::{Room, named};
use crate::exec::skipped::Skipped;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::graph::codec::decode_params;

/// The entry of `ignore_errors` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["ignore_errors"]],
    decode: decode_params::<definition::IgnoreErrors>,
    named: Some(named::<definition::IgnoreErrors>),
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = *preparing.of::<definition::IgnoreErrors>()?;
    prepared(move |opening| {
        let shared = &opening.own_shared();
        Ok(Box::new(IgnoreErrors::new(
            operation.log_warning,
            opening.input()?,
            shared,
        )))
    })
}

pub(crate) struct IgnoreErrors {
    log_warning: bool,
    input: Input,
    cancel: Cancel,
    skipped: Skipped,
}

impl IgnoreErrors {
    pub(crate) fn new(log_warning: bool, input: Input, shared: &Shared) -> IgnoreErrors {
        IgnoreErrors {
            log_warning,
            input,
            cancel: shared.cancel.clone(),
            skipped: shared.skipped.clone(),
        }
    }
}

impl Iterate for IgnoreErrors {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        loop {
            match self.input.next() {
                Err(error) if error.is_passable() && self.log_warning => self.skipped.record(&error),
                Err(error) if error.is_passable() => self.skipped.record_quietly(&error),
                next => return next,
            }
            self.cancel.check("ignore_errors")?;
        }
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("ignore_errors")?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("ignore_errors")?;
        self.input.restore(state)
    }
}
