//! `interleave`: a dataset per element, several of them by turns. There is a slot for each that is open; where one has
//! ended, the next element's takes its slot when it is that slot's turn.

use crate::exec::cancel::Cancel;
use crate::exec::error::ExecError;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::graph::Cycle;

use super::body::{Body, Opened};

pub(crate) struct Interleave {
    body: Body,
    cycle: Cycle,
    input: Input,
    cancel: Cancel,
    /// How often it was restarted: a body draws anew in every pass.
    pass: u64,
    /// At most as many as the cycle is long; none of them is empty once the input has ended.
    slots: Vec<Option<Opened>>,
    /// Whose turn it is; one beyond the slots for one that is not there yet.
    turn: usize,
    /// Elements of this turn.
    taken: u64,
    input_ended: bool,
}

impl Interleave {
    pub(crate) fn new(body: Body, cycle: Cycle, input: Input, cancel: Cancel) -> Interleave {
        Interleave {
            body,
            cycle,
            input,
            cancel,
            pass: 0,
            slots: Vec::new(),
            turn: 0,
            taken: 0,
            input_ended: false,
        }
    }

    /// On to the next slot.
    fn pass_on(&mut self) {
        self.taken = 0;
        self.turn += 1;
        let slots = if self.input_ended {
            self.slots.len()
        } else {
            // A cycle has at most 4096 slots.
            self.cycle.length as usize
        };
        if self.turn >= slots {
            self.turn = 0;
        }
    }

    /// Empties the slot whose dataset has ended. No other comes in its place when the input has ended too.
    fn close(&mut self) {
        if !self.input_ended {
            self.slots[self.turn] = None;
            return self.pass_on();
        }
        self.slots.remove(self.turn);
        self.taken = 0;
        if self.turn == self.slots.len() {
            self.turn = 0;
        }
    }

    /// Puts the dataset of the next element into the slot whose turn it is.
    fn open_next(&mut self) -> Result<(), ExecError> {
        let Some(outer) = self.input.next()? else {
            self.input_ended = true;
            let open_before = self.slots.iter().take(self.turn).flatten().count();
            self.slots.retain(Option::is_some);
            self.turn = if open_before == self.slots.len() {
                0
            } else {
                open_before
            };
            return Ok(());
        };
        let opened = Some(self.body.open(outer, self.pass)?);
        match self.slots.get_mut(self.turn) {
            Some(slot) => *slot = opened,
            None => self.slots.push(opened),
        }
        Ok(())
    }
}

impl Iterate for Interleave {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        loop {
            self.cancel.check("interleave")?;
            match self.slots.get_mut(self.turn) {
                Some(Some(opened)) => match self.body.next(opened)? {
                    Some(item) => {
                        self.taken = self.taken.saturating_add(1);
                        if self.taken >= self.cycle.block {
                            self.pass_on();
                        }
                        return Ok(Some(item));
                    }
                    None => self.close(),
                },
                Some(None) | None if self.input_ended => return Ok(None),
                Some(None) | None => self.open_next()?,
            }
        }
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.slots.clear();
        (self.turn, self.taken, self.input_ended) = (0, 0, false);
        self.pass = self.pass.wrapping_add(1);
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("interleave")?;
        state.number(self.pass)?;
        state.number(self.turn as u64)?;
        state.number(self.taken)?;
        state.flag(self.input_ended)?;
        state.number(self.slots.len() as u64)?;
        for slot in &mut self.slots {
            state.flag(slot.is_some())?;
            if let Some(opened) = slot {
                Body::save(opened, state)?;
            }
        }
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("interleave")?;
        self.pass = state.number()?;
        let turn = state.number()?;
        self.taken = state.number()?;
        self.input_ended = state.flag()?;
        let slots = state.number()?;
        if slots > self.cycle.length || turn > slots || turn >= self.cycle.length {
            let reason = format!(
                "turn {turn} of {slots} datasets, of which {} may be open",
                self.cycle.length
            );
            return Err(StateError::Malformed(reason));
        }
        // At most 4096, as is the length of a cycle.
        self.turn = turn as usize;
        for _ in 0..slots {
            let opened = state
                .flag()?
                .then(|| self.body.restore(state, self.pass))
                .transpose()?;
            self.slots.push(opened);
        }
        self.input.restore(state)
    }
}
