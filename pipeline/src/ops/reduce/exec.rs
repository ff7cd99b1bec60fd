//! The execution of `reduce`, which folds all elements of a pass into a state and yields the final
//! state.

use crate::exec::call::Chain;
use crate::exec::cancel::Cancel;
use crate::exec::context::Shared;
use crate::exec::error::ExecError;
use crate::exec::faults::Faults;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::token::{self, Marks};
use crate::exec::value::Value;

use super::definition;
use crate::exec::constants;
use crate::exec::program::Program;
use crate::exec::program::{OpenError, Opening, Prepared, Preparing};
use crate::exec::room::Room;
use crate::ops::scan::exec::step;
use std::sync::Arc;

/// The entry of `reduce` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["reduce"]],
    decode: definition::decode,
    named: None,
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = preparing.of::<definition::Reducing>()?;
    let argument = operation.argument(&preparing.given()?)?;
    Ok(Box::new(WithReducing {
        function: preparing.body(&operation.0.function, Some(&argument))?,
        operation: operation.clone(),
    }))
}

struct WithReducing {
    operation: definition::Reducing,
    function: Arc<Program>,
}

impl Prepared for WithReducing {
    fn open(&self, opening: &Opening<'_>) -> Result<Input, ExecError> {
        let input = opening.input()?;
        let shared = &opening.own_shared();
        let initial = constants::value(&self.operation.0.initial, "reduce")?;
        Ok(Box::new(Reduce::new(
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

pub(crate) struct Reduce {
    initial: Value,
    chain: Chain,
    input: Input,
    cancel: Cancel,
    faults: Faults,
    pass: u64,
    /// Whether this pass has yielded its state.
    yielded: bool,
}

impl Reduce {
    pub(crate) fn new(initial: Value, chain: Chain, input: Input, shared: &Shared) -> Reduce {
        Reduce {
            initial,
            chain,
            input,
            cancel: shared.cancel.clone(),
            faults: shared.faults(),
            pass: 0,
            yielded: false,
        }
    }
}

impl Iterate for Reduce {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        if self.yielded {
            return Ok(None);
        }
        let mut state = self.initial.clone();
        let mut marks = Marks::new();
        loop {
            self.cancel.check("reduce")?;
            let made = match self.input.next() {
                Ok(Some(item)) => step("reduce", &self.chain, &state, item, self.pass, &self.faults),
                Ok(None) => break,
                Err(error) => Err(error),
            };
            // A failed element loses the whole state, so the failure ends the pass and abandons all
            // splits.
            let made = made.inspect_err(|_| {
                token::abandon(&marks);
                self.yielded = true;
            })?;
            if let Some(made) = made {
                state = made.value;
                token::merge(&mut marks, made.marks);
            }
        }
        self.yielded = true;
        Ok(Some(Item {
            marks,
            ..Item::new(state, 0)
        }))
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.yielded = false;
        self.pass = self.pass.wrapping_add(1);
        self.faults.next_pass();
        self.input.restart()
    }

    fn further(&self) -> Further {
        // Every pass yields a state, even without elements.
        match self.input.further() {
            Further::Nothing => Further::Open,
            further @ (Further::Open | Further::Behind | Further::Shared) => further,
        }
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("reduce")?;
        state.number(self.pass)?;
        state.flag(self.yielded)?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("reduce")?;
        self.pass = state.number()?;
        self.yielded = state.flag()?;
        self.input.restore(state)
    }
}
