//! The execution of `flat_map`, which turns each element into a dataset and yields these datasets one
//! after the other.

use crate::exec::cancel::Cancel;
use crate::exec::error::ExecError;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::state::{StateError, StateReader, StateWriter};

use super::definition;
use crate::exec::body::{Body, Given, Opened};
use crate::exec::context::Shared;
use crate::exec::functions::SitedFlatMapCall;
use crate::exec::program::{OpenError, Opening, Prepared, Preparing};
use crate::exec::program::{Program, check_declared};
use crate::exec::room::Room;
use std::sync::Arc;

/// The entry of `flat_map` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["flat_map"]],
    decode: definition::decode,
    named: None,
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let function = Function::prepare(preparing.of::<definition::FlatMap>()?, preparing)?;
    Ok(Box::new(Flattening(function)))
}

struct Flattening(Function);

impl Prepared for Flattening {
    fn open(&self, opening: &Opening<'_>) -> Result<Input, ExecError> {
        let input = opening.input()?;
        let shared = opening.own_shared();
        let cancel = shared.cancel.clone();
        Ok(Box::new(FlatMap::new(
            self.0.body(opening, &shared),
            input,
            cancel,
        )))
    }

    fn listings(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        self.0.listings()
    }
}

/// The function that turns elements into datasets, ready to be called.
pub(crate) enum Function {
    Body(Arc<Program>),
    Registered(String, SitedFlatMapCall),
}

impl Function {
    pub(crate) fn prepare(
        function: &definition::FlatMap,
        preparing: &Preparing<'_>,
    ) -> Result<Function, OpenError> {
        let input = preparing.input()?;
        Ok(match function {
            definition::FlatMap::Graph(body) => Function::Body(preparing.body(body, Some(input))?),
            definition::FlatMap::Registered(registered) => {
                let (name, params) = (&registered.name, &registered.params);
                let found = preparing.means.prepare_flat_map(name, params, input)?;
                check_declared(name, preparing.output, &found.output)?;
                Function::Registered(name.clone(), found.call)
            }
        })
    }

    pub(crate) fn body(&self, opening: &Opening<'_>, shared: &Shared) -> Body {
        match self {
            Function::Body(program) => Body::program(program, shared),
            Function::Registered(name, call) => Body::Registered {
                name: name.clone(),
                call: Arc::clone(call),
                output: opening.spec().clone(),
                seeds: shared.seeds(opening.drawn(), None),
                shared: shared.clone(),
            },
        }
    }

    pub(crate) fn listings(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        match self {
            Function::Body(program) => program.listings(),
            Function::Registered(..) => Box::new(std::iter::empty()),
        }
    }
}

pub(crate) struct FlatMap {
    body: Body,
    input: Input,
    cancel: Cancel,
    /// The number of restarts of the operation so far. Random draws in the function's body depend on
    /// the number of restarts.
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
