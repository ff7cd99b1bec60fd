//! The execution of `scan`, and the application of a function to a state and an element, which `reduce`
//! shares.

use super::definition;
use crate::exec::call::{self, Chain};
use crate::exec::cancel::Cancel;
use crate::exec::constants;
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::faults::Faults;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::program::Program;
use crate::exec::program::{OpenError, Opening, Prepared, Preparing};
use crate::exec::room::Room;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::value::Value;
use std::sync::Arc;

/// The entry of `scan` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["scan"]],
    decode: definition::decode,
    named: None,
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = preparing.of::<definition::Scan>()?;
    let argument = operation.argument(&preparing.given()?)?;
    Ok(Box::new(WithScan {
        function: preparing.body(&operation.0.function, Some(&argument))?,
        operation: operation.clone(),
    }))
}

struct WithScan {
    operation: definition::Scan,
    function: Arc<Program>,
}

impl Prepared for WithScan {
    fn open(&self, opening: &Opening<'_>) -> Result<Input, ExecError> {
        let input = opening.input()?;
        let shared = &opening.own_shared();
        let initial = constants::value(&self.operation.0.initial, "scan")?;
        Ok(Box::new(Scan::new(
            initial,
            self.function.chain(shared)?,
            input,
            shared,
        )))
    }

    fn listings(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        self.function.listings()
    }
}

pub(crate) struct Scan {
    initial: Value,
    /// The state, with all deferred computations done. A deferred state would hold all earlier states
    /// in memory.
    state: Value,
    chain: Chain,
    input: Input,
    cancel: Cancel,
    faults: Faults,
    pass: u64,
}

impl Scan {
    pub(crate) fn new(initial: Value, chain: Chain, input: Input, shared: &Shared) -> Scan {
        Scan {
            state: initial.clone(),
            initial,
            chain,
            input,
            cancel: shared.cancel.clone(),
            faults: shared.faults(),
            pass: 0,
        }
    }
}

impl Iterate for Scan {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        while let Some(item) = self.input.next()? {
            if let Some(mut made) = step("scan", &self.chain, &self.state, item, self.pass, &self.faults)? {
                let output = made.value.drain(self.state.len()..).collect();
                self.state = std::mem::replace(&mut made.value, output);
                return Ok(Some(made));
            }
            self.cancel.check("scan")?;
        }
        Ok(None)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.state = self.initial.clone();
        self.pass = self.pass.wrapping_add(1);
        self.faults.next_pass();
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("scan")?;
        state.number(self.pass)?;
        state.item(&Item::new(self.state.clone(), 0))?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("scan")?;
        self.pass = state.number()?;
        self.state = restored(state, &self.initial)?;
        self.input.restore(state)
    }
}

/// Applies `chain` to `state` and `item`, and runs all deferred computations of the result. The first
/// components of the result are the next state. Returns `None` if a function dropped the element.
pub(crate) fn step(
    op: &str,
    chain: &Chain,
    state: &Value,
    mut item: Item,
    pass: u64,
    faults: &Faults,
) -> Result<Option<Item>, ExecError> {
    let element = std::mem::replace(&mut item.value, state.clone());
    item.value.extend(element);
    let made = call::run(chain, item, pass, faults).and_then(|made| made.map(call::settled).transpose())?;
    match made {
        Some(made) if made.value.len() < state.len() => {
            let message = "expected at least the components of the state from the function, found fewer";
            let error = ExecError::new(ErrorKind::UserFunction, op, message).at_position(made.position);
            faults.leave_out(error, &made.marks).map(|()| None)
        }
        made => Ok(made),
    }
}

/// Restores a saved state, which must have as many components as `initial`.
pub(crate) fn restored(state: &mut StateReader<'_>, initial: &Value) -> Result<Value, StateError> {
    let value = state.item()?.value;
    if value.len() == initial.len() {
        Ok(value)
    } else {
        let (found, expected) = (value.len(), initial.len());
        Err(StateError::Malformed(format!(
            "expected a state of {expected} components, found {found}"
        )))
    }
}
