//! The execution of `shuffle`, which draws elements uniformly from a buffer and refills the buffer from
//! the input.
//!
//! The n-th draw of a pass is a function of the seed, the epoch, the pass and n. So a saved state
//! consists of the buffer and n.

use super::definition;
use crate::exec::budget::Kept;
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::random::{Draws, Seeds};
use crate::exec::room::{Room, named};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::graph;
use crate::graph::codec::decode_params;

/// The entry of `shuffle` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["shuffle"]],
    decode: decode_params::<definition::Shuffle>,
    named: Some(named::<definition::Shuffle>),
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = *preparing.of::<definition::Shuffle>()?;
    prepared(move |opening| {
        let shared = &opening.own_shared();
        Ok(Box::new(Shuffle::new(
            operation,
            opening.drawn(),
            opening.input()?,
            shared.clone(),
        )))
    })
}

pub(crate) struct Shuffle {
    size: usize,
    input: Input,
    shared: Shared,
    seeds: Seeds,
    draws: Draws,
    pass: u64,
    buffer: Vec<Item>,
    /// The account of the bytes in the buffer.
    kept: Kept,
    /// The number of elements drawn in this pass.
    drawn: u64,
    input_ended: bool,
}

impl Shuffle {
    pub(crate) fn new(shuffle: graph::Shuffle, node: usize, input: Input, shared: Shared) -> Shuffle {
        let seeds = shared.seeds(node, shuffle.seed).fixed_if(shuffle.fixed);
        Shuffle {
            // The graph's checks limit buffers to 2^24 elements.
            size: shuffle.buffer as usize,
            input,
            kept: shared.budget.kept(),
            shared,
            seeds,
            draws: seeds.draws(0),
            pass: 0,
            buffer: Vec::new(),
            drawn: 0,
            input_ended: false,
        }
    }

    fn fill(&mut self) -> Result<(), ExecError> {
        while !self.input_ended && self.buffer.len() < self.size {
            match self.input.next()? {
                Some(item) => self.hold(item)?,
                None => self.input_ended = true,
            }
            self.shared.cancel.check("shuffle")?;
        }
        Ok(())
    }

    fn hold(&mut self, item: Item) -> Result<(), ExecError> {
        if !self.kept.try_add(item.held_bytes()) {
            let limit_bytes = self.shared.budget.limit_bytes();
            // Fails instead of using a smaller buffer, because the order must not depend on the
            // available memory.
            let message = format!(
                "{} of {} elements fill the rest of the pipeline's budget of {limit_bytes} bytes; shuffle before decoding, use a \
                 smaller buffer or raise the limit",
                self.buffer.len(),
                self.size
            );
            return Err(ExecError::new(ErrorKind::Resource, "shuffle", message));
        }
        self.buffer.push(item);
        Ok(())
    }
}

impl Iterate for Shuffle {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        self.fill()?;
        if self.buffer.is_empty() {
            return Ok(None);
        }
        // The buffer has at most 2^24 elements, so the conversions lose nothing.
        let chosen = self.draws.below(self.drawn, self.buffer.len() as u64) as usize;
        self.drawn = self.drawn.wrapping_add(1);
        let item = self.buffer.swap_remove(chosen);
        self.kept.remove(item.held_bytes());
        Ok(Some(item))
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.buffer.clear();
        self.kept.clear();
        (self.drawn, self.input_ended) = (0, false);
        self.pass = self.pass.wrapping_add(1);
        self.draws = self.seeds.draws(self.pass);
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("shuffle")?;
        state.number(self.pass)?;
        state.number(self.drawn)?;
        state.flag(self.input_ended)?;
        state.number(self.buffer.len() as u64)?;
        self.buffer.iter().try_for_each(|item| state.item(item))?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("shuffle")?;
        self.pass = state.number()?;
        self.draws = self.seeds.draws(self.pass);
        self.drawn = state.number()?;
        self.input_ended = state.flag()?;
        for _ in 0..state.number()? {
            let item = state.item()?;
            self.hold(item)?;
        }
        self.input.restore(state)
    }
}
