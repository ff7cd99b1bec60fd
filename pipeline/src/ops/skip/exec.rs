//! The execution of `skip`, which drops the first elements of every pass. If the dataset is distributed
//! in splits, each task drops its own first elements.

use super::definition;
use crate::exec::cancel::Cancel;
use crate::exec::error::ExecError;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::room::{Room, named};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::graph::codec::decode_params;

/// The entry of `skip` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["skip"]],
    decode: decode_params::<definition::Skip>,
    named: Some(named::<definition::Skip>),
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = *preparing.of::<definition::Skip>()?;
    prepared(move |opening| {
        Ok(Box::new(Skip::new(
            operation.count,
            opening.input()?,
            opening.shared.cancel.clone(),
        )))
    })
}

pub(crate) struct Skip {
    count: u64,
    skipped: u64,
    input: Input,
    cancel: Cancel,
}

impl Skip {
    pub(crate) fn new(count: u64, input: Input, cancel: Cancel) -> Skip {
        Skip {
            count,
            skipped: 0,
            input,
            cancel,
        }
    }
}

impl Iterate for Skip {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        while self.skipped < self.count {
            if self.input.next()?.is_none() {
                self.skipped = self.count;
                return Ok(None);
            }
            self.skipped += 1;
            self.cancel.check("skip")?;
        }
        self.input.next()
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.skipped = 0;
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("skip")?;
        state.number(self.skipped)?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("skip")?;
        self.skipped = state.number()?;
        self.input.restore(state)
    }
}
