//! `map`, one element at a time in the thread that pulls; and the call of a registered function.

use millstream_element::ElementSpec;

use crate::exec::call::{self, Call, Chain, Place};
use crate::exec::cancel::Cancel;
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::faults::Faults;
use crate::exec::functions::SitedMapCall;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::random::Seeds;
use crate::exec::site::Site;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::value::Value;

use super::source::check;

pub(crate) struct Map {
    chain: Chain,
    input: Input,
    cancel: Cancel,
    faults: Faults,
    pass: u64,
}

impl Map {
    pub(crate) fn new(chain: Chain, input: Input, shared: &Shared) -> Map {
        Map {
            chain,
            input,
            cancel: shared.cancel.clone(),
            faults: shared.faults(),
            pass: 0,
        }
    }
}

impl Iterate for Map {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        while let Some(item) = self.input.next()? {
            if let Some(item) = call::run(&self.chain, item, self.pass, &self.faults)? {
                return Ok(Some(item));
            }
            self.cancel.check("map")?;
        }
        Ok(None)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.pass = self.pass.wrapping_add(1);
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("map")?;
        state.number(self.pass)?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("map")?;
        self.pass = state.number()?;
        self.input.restore(state)
    }
}

/// A registered function, whose results are held against what it said it yields.
pub(crate) struct RegisteredCall {
    pub(crate) name: String,
    pub(crate) call: SitedMapCall,
    pub(crate) output: ElementSpec,
    pub(crate) seeds: Seeds,
    pub(crate) cancel: Cancel,
}

impl Call for RegisteredCall {
    fn name(&self) -> &str {
        &self.name
    }

    fn call(&self, value: Value, at: &Place<'_>) -> Result<Option<Value>, ExecError> {
        // A function that says more of its failure, such as its traceback, says it as an `ExecError`.
        let failed = |error: crate::exec::error::BoxError| match error.downcast::<ExecError>() {
            Ok(error) => *error,
            Err(error) => ExecError::new(ErrorKind::UserFunction, &*self.name, error.to_string()),
        };
        let site = Site::new(&self.seeds, at.pass, at.position, &self.cancel);
        let value = (self.call)(value, &site).map_err(failed)?;
        check(&self.name, &self.output, &value)?;
        Ok(Some(value))
    }
}
