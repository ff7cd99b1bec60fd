//! The execution of `window`, which turns each window of consecutive elements into a dataset.

use std::collections::VecDeque;

use crate::exec::budget::Charge;
use crate::exec::cancel::Cancel;
use crate::exec::context::Shared;
use crate::exec::error::ExecError;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::graph;

use super::definition;
use crate::exec::body::{Body, Given, Opened};
use crate::exec::program::Program;
use crate::exec::program::{OpenError, Opening, Prepared, Preparing};
use crate::exec::room::Room;
use std::sync::Arc;

/// The entry of `window` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["window"]],
    decode: definition::decode,
    named: None,
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = preparing.of::<definition::Windows>()?;
    Ok(Box::new(WithWindows {
        function: preparing.body(&operation.reduce, Some(preparing.input()?))?,
        operation: operation.clone(),
    }))
}

struct WithWindows {
    operation: definition::Windows,
    function: Arc<Program>,
}

impl Prepared for WithWindows {
    fn open(&self, opening: &Opening<'_>) -> Result<Input, ExecError> {
        let input = opening.input()?;
        let shared = &opening.own_shared();
        let reduce = Body::program(&self.function, shared);
        Ok(Box::new(Window::new(
            self.operation.window,
            reduce,
            input,
            shared,
        )))
    }

    fn listings(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        self.function.listings()
    }
}

const OP: &str = "window";

pub(crate) struct Window {
    window: graph::Window,
    reduce: Body,
    input: Input,
    cancel: Cancel,
    /// The number of restarts of the operation so far. Random draws in the function's body depend on
    /// the number of restarts.
    pass: u64,
    /// The elements from the beginning of the next window on, at most as many as the span of a window.
    buffer: VecDeque<Item>,
    charge: Charge,
    /// The number of input elements to skip before the next window begins.
    gap: u64,
    current: Option<Opened>,
    input_ended: bool,
}

impl Window {
    pub(crate) fn new(window: graph::Window, reduce: Body, input: Input, shared: &Shared) -> Window {
        Window {
            window,
            reduce,
            input,
            cancel: shared.cancel.clone(),
            pass: 0,
            buffer: VecDeque::new(),
            charge: shared.budget.charge(0),
            gap: 0,
            current: None,
            input_ended: false,
        }
    }

    /// Returns the next window, or `None` at the end of the input.
    fn next_window(&mut self) -> Result<Option<Vec<Item>>, ExecError> {
        let span = self.window.span();
        while !self.input_ended && (self.buffer.len() as u64) < span {
            self.cancel.check(OP)?;
            match self.input.next()? {
                Some(_) if self.gap > 0 => self.gap -= 1,
                Some(item) => {
                    self.charge
                        .set(self.charge.bytes().saturating_add(item.held_bytes()));
                    self.buffer.push_back(item);
                }
                None => self.input_ended = true,
            }
        }
        let is_whole = self.buffer.len() as u64 >= span;
        if self.buffer.is_empty() || (self.window.drop_remainder && !is_whole) {
            return Ok(None);
        }
        // A span has at most 2^24 elements, so the conversion loses nothing.
        let stride = self.window.stride as usize;
        let items: Vec<Item> = self.buffer.iter().step_by(stride).cloned().collect();
        let passed = self
            .buffer
            .len()
            .min(usize::try_from(self.window.shift).unwrap_or(usize::MAX));
        self.gap = self.window.shift - passed as u64;
        self.buffer.drain(..passed);
        self.charge.set(self.buffer.iter().map(Item::held_bytes).sum());
        Ok(Some(items))
    }
}

impl Iterate for Window {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        loop {
            self.cancel.check(OP)?;
            if let Some(current) = &mut self.current {
                if let Some(item) = self.reduce.next(current)? {
                    return Ok(Some(item));
                }
                self.current = None;
            }
            let Some(items) = self.next_window()? else {
                return Ok(None);
            };
            self.current = Some(self.reduce.open(Given::window(items), self.pass)?);
        }
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.current = None;
        self.buffer.clear();
        self.charge.set(0);
        (self.gap, self.input_ended) = (0, false);
        self.pass = self.pass.wrapping_add(1);
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin(OP)?;
        state.number(self.pass)?;
        state.number(self.gap)?;
        state.flag(self.input_ended)?;
        state.flag(self.current.is_some())?;
        if let Some(current) = &mut self.current {
            Body::save(current, state)?;
        }
        state.number(self.buffer.len() as u64)?;
        self.buffer.iter().try_for_each(|item| state.item(item))?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin(OP)?;
        self.pass = state.number()?;
        self.gap = state.number()?;
        self.input_ended = state.flag()?;
        if state.flag()? {
            self.current = Some(self.reduce.restore(state, self.pass)?);
        }
        for _ in 0..state.number()? {
            self.buffer.push_back(state.item()?);
        }
        self.charge.set(self.buffer.iter().map(Item::held_bytes).sum());
        self.input.restore(state)
    }
}
