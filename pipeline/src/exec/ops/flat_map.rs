//! `flat_map`: a dataset per element, one after the other.

use crate::exec::cancel::Cancel;
use crate::exec::error::ExecError;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::state::{StateError, StateReader, StateWriter};

use super::body::{Body, Given, Opened};

pub(crate) struct FlatMap {
    body: Body,
    input: Input,
    cancel: Cancel,
    /// How often it was restarted: a body draws anew in every pass.
    pass: u64,
    current: Option<Opened>,
}

impl FlatMap {
    pub(crate) fn new(body: Body, input: Input, cancel: Cancel) -> FlatMap {
        FlatMap {
            body,
            input,
            cancel,
            pass: 0,
            current: None,
        }
    }
}

impl Iterate for FlatMap {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        loop {
            self.cancel.check("flat_map")?;
            if let Some(current) = &mut self.current {
                if let Some(item) = self.body.next(current)? {
                    return Ok(Some(item));
                }
                self.current = None;
            }
            let Some(outer) = self.input.next()? else {
                return Ok(None);
            };
            self.current = Some(self.body.open(Given::element(outer), self.pass)?);
        }
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.current = None;
        self.pass = self.pass.wrapping_add(1);
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("flat_map")?;
        state.number(self.pass)?;
        state.flag(self.current.is_some())?;
        if let Some(current) = &mut self.current {
            Body::save(current, state)?;
        }
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("flat_map")?;
        self.pass = state.number()?;
        if state.flag()? {
            self.current = Some(self.body.restore(state, self.pass)?);
        }
        self.input.restore(state)
    }
}
