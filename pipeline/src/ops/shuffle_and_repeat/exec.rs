//! The execution of `shuffle_and_repeat`, which shuffles every pass by draws from a buffer. The buffer
//! already reads the next pass while the current pass ends. Every draw takes an element of the oldest
//! pass in the buffer, so that passes do not mix.
//!
//! The order equals the order of a `shuffle` followed by a `repeat`. When the first element of a pass
//! is drawn, the buffer holds no elements of earlier passes.

use std::collections::VecDeque;

use crate::exec::budget::Kept;
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::random::Seeds;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::graph;

use super::definition;
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::room::{Room, named};
use crate::graph::codec::decode_params;
use crate::ops::repeat::exec::Repeat;

/// The entry of `shuffle_and_repeat` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["shuffle_and_repeat"]],
    decode: decode_params::<definition::ShuffleAndRepeat>,
    named: Some(named::<definition::ShuffleAndRepeat>),
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = *preparing.of::<definition::ShuffleAndRepeat>()?;
    prepared(move |opening| {
        let shared = &opening.own_shared();
        Ok(Box::new(ShuffleAndRepeat::new(
            operation,
            opening.drawn(),
            opening.input()?,
            shared.clone(),
        )))
    })
}

/// The number of passes in the buffer beyond which the buffer stops reading ahead, as in tf.data. The
/// limit keeps a small dataset from being read many times to fill a large buffer.
const PASSES_MAX: usize = 3;

pub(crate) struct ShuffleAndRepeat {
    size: usize,
    input: Repeat,
    shared: Shared,
    seeds: Seeds,
    /// The number of passes that were made before the latest restart.
    before: u64,
    /// The buffered elements of each pass, the oldest pass first.
    passes: VecDeque<Pass>,
    /// The number of buffered elements of all passes.
    held: usize,
    /// The account of the bytes of all buffered elements.
    kept: Kept,
    input_ended: bool,
}

/// The buffered elements of one pass.
struct Pass {
    number: u64,
    /// The number of elements drawn from this pass.
    drawn: u64,
    items: Vec<Item>,
}

impl ShuffleAndRepeat {
    pub(crate) fn new(shuffle: graph::ShuffleAndRepeat, node: usize, input: Input, shared: Shared) -> Self {
        let is_fed = shared.feed.is_some();
        ShuffleAndRepeat {
            // The graph's checks limit buffers to 2^24 elements.
            size: shuffle.buffer as usize,
            input: Repeat::new(shuffle.count, input, is_fed, shared.cancel.clone()),
            seeds: shared.seeds(node, shuffle.seed),
            kept: shared.budget.kept(),
            shared,
            before: 0,
            passes: VecDeque::new(),
            held: 0,
            input_ended: false,
        }
    }

    fn fill(&mut self) -> Result<(), ExecError> {
        while !self.input_ended
            && self.held < self.size
            && (self.held == 0 || self.passes.len() <= PASSES_MAX)
        {
            self.shared.cancel.check("shuffle_and_repeat")?;
            match self.input.next()? {
                Some(item) => {
                    let number = self.before.wrapping_add(self.input.pass());
                    self.hold(number, item)?;
                }
                None => self.input_ended = true,
            }
        }
        Ok(())
    }

    fn hold(&mut self, number: u64, item: Item) -> Result<(), ExecError> {
        if !self.kept.try_add(item.held_bytes()) {
            let limit_bytes = self.shared.budget.limit_bytes();
            let message = format!(
                "{} of {} elements fill the rest of the pipeline's budget of {limit_bytes} bytes; shuffle before decoding, use a \
                 smaller buffer or raise the limit",
                self.held, self.size
            );
            return Err(ExecError::new(ErrorKind::Resource, "shuffle_and_repeat", message));
        }
        self.held += 1;
        match self.passes.back_mut() {
            Some(pass) if pass.number == number => pass.items.push(item),
            Some(_) | None => self.passes.push_back(Pass {
                number,
                drawn: 0,
                items: vec![item],
            }),
        }
        Ok(())
    }
}

impl Iterate for ShuffleAndRepeat {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        loop {
            self.fill()?;
            let Some(pass) = self.passes.front_mut() else {
                return Ok(None);
            };
            if pass.items.is_empty() {
                self.passes.pop_front();
                continue;
            }
            // The buffer has at most 2^24 elements, so the conversions lose nothing.
            let draws = self.seeds.draws(pass.number);
            let chosen = draws.below(pass.drawn, pass.items.len() as u64) as usize;
            pass.drawn = pass.drawn.wrapping_add(1);
            let item = pass.items.swap_remove(chosen);
            self.held -= 1;
            self.kept.remove(item.held_bytes());
            return Ok(Some(item));
        }
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.passes.clear();
        self.kept.clear();
        (self.held, self.input_ended) = (0, false);
        self.before = self.before.wrapping_add(self.input.pass()).wrapping_add(1);
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("shuffle_and_repeat")?;
        state.number(self.before)?;
        state.flag(self.input_ended)?;
        state.number(self.passes.len() as u64)?;
        for pass in &self.passes {
            state.number(pass.number)?;
            state.number(pass.drawn)?;
            state.number(pass.items.len() as u64)?;
            pass.items.iter().try_for_each(|item| state.item(item))?;
        }
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("shuffle_and_repeat")?;
        self.before = state.number()?;
        self.input_ended = state.flag()?;
        for _ in 0..state.number()? {
            let (number, drawn) = (state.number()?, state.number()?);
            self.passes.push_back(Pass {
                number,
                drawn,
                items: Vec::new(),
            });
            for _ in 0..state.number()? {
                let item = state.item()?;
                self.hold(number, item)?;
            }
        }
        self.input.restore(state)
    }
}
