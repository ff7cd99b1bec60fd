//! The execution of `group_by_window`, which collects elements of equal keys and turns each window into
//! a dataset.

use crate::exec::call::Chain;
use crate::exec::cancel::Cancel;
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::faults::Faults;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::value::{Tensor, Value};
use crate::graph::BUFFER_MAX;

use super::definition;
use crate::exec::body::{Body, Given, Opened};
use crate::exec::groups::{Groups, number};
use crate::exec::program::Program;
use crate::exec::program::{OpenError, Opening, Prepared, Preparing};
use crate::exec::room::Room;
use std::sync::Arc;

/// The entry of `group_by_window` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["group_by_window"]],
    decode: definition::decode,
    named: None,
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = preparing.of::<definition::Grouping>()?;
    let input = Some(preparing.input()?);
    let key = preparing.body(&operation.key, input)?;
    Ok(Box::new(Grouping {
        reduce: preparing.body(&operation.reduce, input)?,
        size: match &operation.size {
            definition::WindowSize::Fixed(size) => Size::Fixed(*size),
            definition::WindowSize::ByKey(size) => Size::ByKey(preparing.body(size, Some(key.spec()))?),
        },
        key,
    }))
}

struct Grouping {
    key: Arc<Program>,
    reduce: Arc<Program>,
    size: Size,
}

enum Size {
    Fixed(u64),
    ByKey(Arc<Program>),
}

impl Prepared for Grouping {
    fn open(&self, opening: &Opening<'_>) -> Result<Input, ExecError> {
        let input = opening.input()?;
        let shared = &opening.own_shared();
        let size = match &self.size {
            Size::Fixed(size) => WindowSize::Fixed(*size),
            Size::ByKey(size) => WindowSize::ByKey(size.chain(shared)?),
        };
        let (key, reduce) = (self.key.chain(shared)?, Body::program(&self.reduce, shared));
        Ok(Box::new(GroupByWindow::new(key, size, reduce, input, shared)))
    }

    fn listings(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        self.reduce.listings()
    }
}

const OP: &str = "group_by_window";

pub(crate) struct GroupByWindow {
    key: Chain,
    size: WindowSize,
    reduce: Body,
    input: Input,
    cancel: Cancel,
    /// The number of restarts of the operation so far. Random draws in the function's body depend on
    /// the number of restarts.
    pass: u64,
    groups: Groups,
    faults: Faults,
    /// The open dataset of the current window.
    current: Option<Opened>,
    input_ended: bool,
}

/// The number of elements of a window.
pub(crate) enum WindowSize {
    Fixed(u64),
    ByKey(Chain),
}

impl GroupByWindow {
    pub(crate) fn new(
        key: Chain,
        size: WindowSize,
        reduce: Body,
        input: Input,
        shared: &Shared,
    ) -> GroupByWindow {
        GroupByWindow {
            key,
            size,
            reduce,
            input,
            cancel: shared.cancel.clone(),
            pass: 0,
            groups: Groups::new(OP, &shared.budget),
            faults: shared.faults(),
            current: None,
            input_ended: false,
        }
    }

    /// Returns the next window, or `None` at the end of the input.
    fn window(&mut self) -> Result<Option<Vec<Item>>, ExecError> {
        while !self.input_ended {
            self.cancel.check(OP)?;
            let Some(item) = self.input.next()? else {
                self.input_ended = true;
                break;
            };
            let Some(key) = number(OP, &self.key, &item, self.pass, &self.faults)? else {
                continue;
            };
            let size = || self.size.of(key, self.pass, &self.faults);
            if let Some(full) = self.groups.add(key, item, size)? {
                return Ok(Some(full));
            }
        }
        Ok(self.groups.pop_first().map(|(_, items, _)| items))
    }
}

impl WindowSize {
    /// Returns the window size for `key`.
    fn of(&self, key: i64, pass: u64, faults: &Faults) -> Result<u64, ExecError> {
        let chain = match self {
            WindowSize::Fixed(size) => return Ok(*size),
            WindowSize::ByKey(chain) => chain,
        };
        // A failure of the size function belongs to a key and not to an element, so the error policy
        // cannot skip the failure.
        let item = Item::new(Value::from_buf([Tensor::i64(key)]), 0);
        let size = number(OP, chain, &item, pass, &faults.raising())?.unwrap_or(0);
        u64::try_from(size)
            .ok()
            .filter(|size| (1..=BUFFER_MAX).contains(size))
            .ok_or_else(|| {
                let message =
                    format!("the window of key {key} has {size} elements, expected 1 to {BUFFER_MAX}");
                ExecError::new(ErrorKind::UserFunction, OP, message)
            })
    }
}

impl Iterate for GroupByWindow {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        loop {
            self.cancel.check(OP)?;
            if let Some(current) = &mut self.current {
                if let Some(item) = self.reduce.next(current)? {
                    return Ok(Some(item));
                }
                self.current = None;
            }
            let Some(window) = self.window()? else {
                return Ok(None);
            };
            self.current = Some(self.reduce.open(Given::window(window), self.pass)?);
        }
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.current = None;
        self.groups.clear();
        self.input_ended = false;
        self.pass = self.pass.wrapping_add(1);
        self.faults.next_pass();
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin(OP)?;
        state.number(self.pass)?;
        state.flag(self.input_ended)?;
        state.flag(self.current.is_some())?;
        if let Some(current) = &mut self.current {
            Body::save(current, state)?;
        }
        self.groups.save(state)?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin(OP)?;
        self.pass = state.number()?;
        self.input_ended = state.flag()?;
        if state.flag()? {
            self.current = Some(self.reduce.restore(state, self.pass)?);
        }
        self.groups.restore(state)?;
        self.input.restore(state)
    }
}
