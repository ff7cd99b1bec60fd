//! `map` on the threads of the pool: as many calls at once as asked for, results in the order of the input,
//! or in the order in which they are ready.

use std::collections::VecDeque;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded, select};

use crate::exec::budget::Charge;
use crate::exec::call::{self, Chain};
use crate::exec::context::Shared;
use crate::exec::error::ExecError;
use crate::exec::item::Item;
use crate::exec::iterate::{Input, Iterate};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::value::Value;

/// Calls under way or finished and not yet pulled, per parallel call: more than one keeps a thread busy while
/// the first one's result waits for its turn, and lets whoever pulls take several for one wake-up.
const WINDOW_PER_CALL: usize = 4;

type Outcome = Result<Option<Item>, ExecError>;

pub(crate) struct ParallelMap {
    chain: Chain,
    input: Input,
    shared: Shared,
    ordered: bool,
    window: usize,
    pass: u64,
    done: Sender<(u64, Outcome)>,
    results: Receiver<(u64, Outcome)>,
    /// The call of the front of `slots`; calls are numbered from 0 on.
    first: u64,
    /// One per call not yet pulled, in the order of the input.
    slots: VecDeque<Slot>,
    /// Calls whose outcome has not arrived.
    under_way: usize,
    input_ended: bool,
}

struct Slot {
    state: SlotState,
    _charge: Charge,
}

enum SlotState {
    /// The call is under way.
    Waiting,
    /// Its outcome is here.
    Done(Outcome),
    /// The outcome was pulled before that of the front.
    Taken,
}

impl ParallelMap {
    /// `parallel` calls at once; 0 = one per thread of the pool.
    pub(crate) fn new(
        chain: Chain,
        parallel: u32,
        ordered: bool,
        input: Input,
        shared: Shared,
    ) -> ParallelMap {
        let parallel = if parallel == 0 {
            shared.pool.threads()
        } else {
            parallel as usize
        };
        let window = parallel * WINDOW_PER_CALL;
        // Every outcome has room, so that no thread of the pool ever waits for whoever pulls.
        let (done, results) = bounded(window);
        ParallelMap {
            chain,
            input,
            shared,
            ordered,
            window,
            pass: 0,
            done,
            results,
            first: 0,
            slots: VecDeque::new(),
            under_way: 0,
            input_ended: false,
        }
    }

    /// Submits calls until the window is full, the byte budget spent, or the input ended.
    fn top_up(&mut self) -> Result<(), ExecError> {
        while !self.input_ended && self.slots.len() < self.window {
            if self.shared.budget.is_spent() && !self.slots.is_empty() {
                break;
            }
            match self.input.next()? {
                Some(item) => self.submit(item)?,
                None => self.input_ended = true,
            }
        }
        Ok(())
    }

    fn submit(&mut self, item: Item) -> Result<(), ExecError> {
        let number = self.first.wrapping_add(self.slots.len() as u64);
        let charge = self.shared.budget.charge(item.held_bytes());
        let (chain, done, pass) = (Arc::clone(&self.chain), self.done.clone(), self.pass);
        let cancel = self.shared.cancel.clone();
        let job = move || {
            // What was queued when the pipeline was cancelled is not worth a call.
            let outcome = cancel
                .check("map")
                .and_then(|()| call::run(&chain, item, pass))
                .and_then(settled);
            // Nobody listens any more when the pipeline was dropped.
            let _ = done.send((number, outcome));
        };
        self.shared
            .pool
            .submit("map", &self.shared.cancel, Box::new(job))?;
        self.under_way += 1;
        self.slots.push_back(Slot {
            state: SlotState::Waiting,
            _charge: charge,
        });
        Ok(())
    }

    /// Waits for one outcome.
    fn receive(&mut self) -> Result<(), ExecError> {
        let (number, outcome) = select! {
            recv(self.results) -> result => result.map_err(|_| ExecError::cancelled("map"))?,
            recv(self.shared.cancel.signal()) -> _ => return Err(ExecError::cancelled("map")),
        };
        self.under_way -= 1;
        // At most `window` slots: the difference is small.
        if let Some(slot) = self.slots.get_mut(number.wrapping_sub(self.first) as usize) {
            slot.state = SlotState::Done(outcome);
        }
        Ok(())
    }

    /// The slot to pull from next, if its outcome is there.
    fn ready(&self) -> Option<usize> {
        let among = if self.ordered { 1 } else { self.slots.len() };
        self.slots
            .iter()
            .take(among)
            .position(|slot| matches!(slot.state, SlotState::Done(_)))
    }

    /// Removes the outcome at `index`, which is there.
    fn take(&mut self, index: usize) -> Outcome {
        let state = self
            .slots
            .get_mut(index)
            .map(|slot| std::mem::replace(&mut slot.state, SlotState::Taken));
        while self
            .slots
            .front()
            .is_some_and(|slot| matches!(slot.state, SlotState::Taken))
        {
            self.slots.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        match state {
            Some(SlotState::Done(outcome)) => outcome,
            Some(SlotState::Waiting | SlotState::Taken) | None => Ok(None),
        }
    }

    fn finish_calls(&mut self) -> Result<(), ExecError> {
        while self.under_way > 0 {
            self.receive()?;
        }
        Ok(())
    }
}

impl Iterate for ParallelMap {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        loop {
            self.top_up()?;
            match self.ready() {
                Some(index) => {
                    if let Some(item) = self.take(index)? {
                        return Ok(Some(item));
                    }
                }
                None if self.slots.is_empty() => return Ok(None),
                None => self.receive()?,
            }
        }
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.finish_calls()?;
        self.first = self.first.wrapping_add(self.slots.len() as u64);
        self.slots.clear();
        self.input_ended = false;
        self.pass = self.pass.wrapping_add(1);
        self.input.restart()
    }

    fn exhausted(&self) -> bool {
        self.input.exhausted()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        self.finish_calls()?;
        state.begin("parallel_map")?;
        state.number(self.pass)?;
        state.flag(self.input_ended)?;
        for slot in &self.slots {
            match &slot.state {
                SlotState::Done(Ok(Some(item))) => {
                    state.flag(true)?;
                    state.item(item)?;
                }
                SlotState::Done(Ok(None)) | SlotState::Taken | SlotState::Waiting => {}
                SlotState::Done(Err(error)) => return Err(error.clone().into()),
            }
        }
        state.flag(false)?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("parallel_map")?;
        self.pass = state.number()?;
        self.input_ended = state.flag()?;
        while state.flag()? {
            let item = state.item()?;
            let charge = self.shared.budget.charge(item.held_bytes());
            self.slots.push_back(Slot {
                state: SlotState::Done(Ok(Some(item))),
                _charge: charge,
            });
        }
        self.input.restore(state)
    }
}

/// Does on the pool's thread what a function left to be done when it is written, or the work would not be
/// parallel.
fn settled(item: Option<Item>) -> Outcome {
    let Some(mut item) = item else { return Ok(None) };
    let value: Result<Value, ExecError> = item.value.iter().map(|tensor| tensor.settled()).collect();
    item.value = value.map_err(|error| {
        crate::exec::token::abandon(&item.marks);
        error.at(item.origin.as_ref()).at_position(item.position)
    })?;
    Ok(Some(item))
}
