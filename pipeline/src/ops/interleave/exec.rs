//! The execution of `interleave` in one thread: turns each element into a dataset and reads several
//! datasets in turn.

use crate::exec::cancel::Cancel;
use crate::exec::error::ExecError;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::graph::Cycle;

use super::definition;
use super::parallel::ParallelInterleave;
use crate::exec::body::{Body, Given, Opened};
use crate::exec::expected::Expected;
use crate::exec::program::{OpenError, Opening, Prepared, Preparing};
use crate::exec::room::Room;
use crate::exec::turns::{Turn, Turns};
use crate::ops::flat_map::exec::Function;

/// The entry of `interleave` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["interleave"]],
    decode: definition::decode,
    named: None,
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = preparing.of::<definition::Interleave>()?;
    Ok(Box::new(Interleaving {
        function: Function::prepare(&operation.function, preparing)?,
        cycle: operation.cycle,
    }))
}

struct Interleaving {
    function: Function,
    cycle: Cycle,
}

impl Prepared for Interleaving {
    fn open(&self, opening: &Opening<'_>) -> Result<Input, ExecError> {
        let input = opening.input()?;
        let shared = &opening.own_shared();
        let body = self.function.body(opening, shared);
        if self.cycle.schedule.parallel == 1 {
            return Ok(Box::new(Interleave::new(
                body,
                self.cycle,
                input,
                shared.cancel.clone(),
            )));
        }
        let expected = Expected::of(opening.spec());
        Ok(Box::new(ParallelInterleave::new(
            body, self.cycle, expected, input, shared,
        )))
    }

    fn listings(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        self.function.listings()
    }
}

pub(crate) struct Interleave {
    body: Body,
    input: Input,
    cancel: Cancel,
    /// The number of restarts of the operation so far. Random draws in the function's body depend on
    /// the number of restarts.
    pass: u64,
    turns: Turns<Opened>,
}

impl Interleave {
    pub(crate) fn new(body: Body, cycle: Cycle, input: Input, cancel: Cancel) -> Interleave {
        Interleave {
            body,
            input,
            cancel,
            pass: 0,
            turns: Turns::new(cycle),
        }
    }
}

impl Iterate for Interleave {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        loop {
            self.cancel.check("interleave")?;
            match self.turns.now() {
                Turn::Open(opened) => match self.body.next(opened)? {
                    Some(item) => {
                        self.turns.took();
                        return Ok(Some(item));
                    }
                    None => self.turns.close(),
                },
                Turn::Vacant => {
                    let outer = self.input.next()?;
                    let opened = outer.map(|outer| self.body.open(Given::element(outer), self.pass));
                    let opened = opened.transpose()?;
                    self.turns.fill(opened);
                }
                Turn::Over => return Ok(None),
            }
        }
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.turns.restart();
        self.pass = self.pass.wrapping_add(1);
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("interleave")?;
        state.number(self.pass)?;
        self.turns.save(state, Body::save)?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("interleave")?;
        let pass = state.number()?;
        self.pass = pass;
        self.turns
            .restore(state, |state| self.body.restore(state, pass))?;
        self.input.restore(state)
    }
}
