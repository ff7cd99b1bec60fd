//! The execution of `map` on the threads of the pool. Runs several calls at once, and yields the
//! results in the order of the input or in the order in which they become ready.
//!
//! A separate thread reads the input, so that a slow input delays no finished result. An error of the
//! input is yielded after the results of all earlier elements.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded, never, select};

use crate::exec::budget::Charge;
use crate::exec::call::{self, Chain};
use crate::exec::context::Shared;
use crate::exec::error::ExecError;
use crate::exec::expected::Expected;
use crate::exec::faults::Faults;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::measure::is_sampled;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::tune::Knob;
use crate::graph::AUTO;

use crate::exec::read_ahead::{Held, Polled, ReadAhead};

/// The number of calls per parallel call that may be running or finished but not yet pulled. A number
/// above 1 keeps a thread busy while its first result waits for earlier results. The caller can then
/// also take several results per wake-up.
const WINDOW_PER_CALL: usize = 4;

type Outcome = Result<Option<Item>, ExecError>;

/// A finished call, together with the memory reserved for its result.
struct Finished {
    outcome: Outcome,
    charge: Charge,
}

pub(crate) struct ParallelMap {
    chain: Chain,
    input: ReadAhead,
    faults: Faults,
    shared: Shared,
    ordered: bool,
    /// Whether the results become rows of batches, so that the batch runs deferred computations.
    is_batched: bool,
    parallel: usize,
    /// The tuner that chooses the number of calls, up to `parallel`. `None` if the number of calls is
    /// fixed.
    knob: Option<Arc<Knob>>,
    pass: u64,
    done: Sender<(u64, Finished)>,
    results: Receiver<(u64, Finished)>,
    /// The number of the call at the front of `places`. Calls are numbered from 0.
    first: u64,
    /// The places of results. If the map keeps the order, each call whose result has not been pulled
    /// has a place, in the order of the input. The place is empty while the call runs. If the map does
    /// not keep the order, `places` holds the finished calls in the order of their arrival.
    places: VecDeque<Option<Finished>>,
    /// The number of calls whose outcome has not arrived.
    under_way: usize,
    /// The expected bytes of the next results. A decoded picture may be a hundred times larger than its
    /// file.
    expected: Expected,
}

impl ParallelMap {
    /// Makes a map that runs `parallel` calls at once. With [`AUTO`] (0), the tuner chooses the number
    /// of calls; without a tuner, the number is one per thread of the pool. `expected` states the bytes
    /// expected of an input element and of a result.
    pub(crate) fn new(
        chain: Chain,
        parallel: u32,
        ordered: bool,
        is_batched: bool,
        expected: (Expected, Expected),
        input: Input,
        shared: Shared,
    ) -> ParallelMap {
        let (expected_input, expected) = expected;
        let knob = match &shared.tuner {
            Some(tuner) if parallel == AUTO => Some(tuner.knob()),
            Some(_) | None => None,
        };
        let parallel = match &knob {
            Some(knob) => knob.threads(),
            None if parallel == AUTO => shared.pool.threads(),
            None => parallel as usize,
        };
        if let Some(stage) = &shared.stage {
            stage.set_threads(parallel.min(shared.pool.threads()));
        }
        // The channel has room for every outcome, so that no thread of the pool ever waits for the
        // caller.
        let (done, results) = bounded(parallel * WINDOW_PER_CALL);
        ParallelMap {
            chain,
            input: ReadAhead::new("map", parallel, expected_input, input, shared.clone()),
            faults: shared.faults(),
            shared,
            ordered,
            is_batched,
            parallel,
            knob,
            pass: 0,
            done,
            results,
            first: 0,
            places: VecDeque::new(),
            under_way: 0,
            expected,
        }
    }

    /// Returns the number of calls that may run at once now.
    fn threads(&self) -> usize {
        let chosen = self.knob.as_ref().map(|knob| knob.threads());
        chosen.map_or(self.parallel, |threads| threads.min(self.parallel))
    }

    /// Reserves memory for the result of one more call, if a further call is allowed. The window limits
    /// the calls, and so does the byte budget unless no other call is held. Until the size of a result
    /// is known, no calls are queued beyond the number that can run at once.
    fn room(&self) -> Option<Charge> {
        let held = if self.ordered {
            self.places.len()
        } else {
            self.places.len() + self.under_way
        };
        let window = if self.expected.is_known() {
            self.threads() * WINDOW_PER_CALL
        } else {
            self.threads()
        };
        if held >= window {
            return None;
        }
        let budget = &self.shared.budget;
        let bytes = self.expected.bytes(budget);
        if held == 0 {
            return Some(budget.charge(bytes));
        }
        budget.try_take(bytes, false)
    }

    /// Starts calls while the input has elements and there is room. Returns `Some` once the input has
    /// ended or failed.
    fn top_up(&mut self) -> Result<Option<Result<(), ExecError>>, ExecError> {
        while let Some(room) = self.room() {
            match self.input.poll()? {
                Polled::Item(held) => self.submit(held, room)?,
                Polled::Pending => break,
                Polled::Ended(Err(error)) if error.is_passable() => self.pass_on(error),
                Polled::Ended(end) => return Ok(Some(end)),
            }
        }
        Ok(None)
    }

    /// Starts the call for one element. `charge` is the memory reserved for its result.
    fn submit(&mut self, held: Held, mut charge: Charge) -> Result<(), ExecError> {
        let number = self.first.wrapping_add(self.places.len() as u64);
        let (chain, done, pass) = (Arc::clone(&self.chain), self.done.clone(), self.pass);
        let cancel = self.shared.cancel.clone();
        let faults = self.faults.clone();
        let stage = self.shared.stage.clone();
        let tuned = self.knob.clone().zip(self.shared.tuner.clone());
        // A deferred computation must run in the pool to be parallel. Usually the call below runs the
        // computation. For rows of a batch, the batch runs the computation directly in the row's
        // memory, unless the computation can fail.
        let compute = if self.is_batched {
            call::certain
        } else {
            call::settled
        };
        let job = move || {
            let begun = (stage.is_some() || tuned.is_some()).then(Instant::now);
            // Both stay alive until the call has returned.
            let (item, made_of) = held;
            // Skips calls that were still queued when the pipeline was cancelled.
            let outcome = cancel
                .check("map")
                .and_then(|()| call::run(&chain, item, pass, &faults))
                .and_then(|item| item.map(compute).transpose());
            charge.set(outcome.iter().flatten().map(Item::held_bytes).sum());
            drop(made_of);
            if let (Some(stage), Some(begun)) = (stage, begun) {
                stage.note_pool(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
            }
            if let (Some((knob, tuner)), Some(begun)) = (tuned, begun) {
                tuner.note(&knob, begun);
            }
            // The send fails if the pipeline was dropped in the meantime, which is harmless.
            let _ = done.send((number, Finished { outcome, charge }));
        };
        self.shared
            .pool
            .submit("map", &self.shared.cancel, Box::new(job))?;
        self.under_way += 1;
        if self.ordered {
            self.places.push_back(None);
        }
        Ok(())
    }

    /// Queues a failure of the input after the results of the elements before it. The input can
    /// continue after the failure.
    fn pass_on(&mut self, error: ExecError) {
        self.places.push_back(Some(Finished {
            outcome: Err(error),
            charge: self.shared.budget.charge(0),
        }));
    }

    /// Stores an outcome that has arrived, in the place from which the caller pulls it.
    fn place(&mut self, number: u64, finished: Finished) {
        self.under_way -= 1;
        if matches!(finished.outcome, Ok(Some(_))) || !self.expected.is_known() {
            self.expected.note(finished.charge.bytes());
        }
        if !self.ordered {
            self.places.push_back(Some(finished));
        } else if let Some(place) = self.places.get_mut(number.wrapping_sub(self.first) as usize) {
            // The window limits the number of places, so the difference is small.
            *place = Some(finished);
        }
    }

    /// Returns the next outcome to be pulled, if that outcome has arrived.
    fn ready(&mut self) -> Option<Outcome> {
        let finished = self.places.pop_front_if(|place| place.is_some()).flatten()?;
        if self.ordered {
            self.first = self.first.wrapping_add(1);
        }
        Some(finished.outcome)
    }

    /// Waits for an outcome. With `room` for one more call, also waits for an element of the input.
    fn wait(&mut self, room: Option<Charge>) -> Result<(), ExecError> {
        if self.under_way == 0 {
            self.input.want();
        }
        let nothing = never();
        let arrivals = self
            .input
            .arrivals()
            .filter(|_| room.is_some())
            .unwrap_or(&nothing);
        let arrived = select! {
            recv(self.results) -> result => {
                let (number, finished) = result.map_err(|_| ExecError::cancelled("map"))?;
                self.place(number, finished);
                None
            }
            recv(arrivals) -> held => held.ok(),
            recv(self.shared.cancel.signal()) -> _ => return Err(ExecError::cancelled("map")),
        };
        match (arrived, room) {
            (Some(held), Some(room)) => {
                self.input.took();
                self.submit(held, room)
            }
            (Some(_) | None, _) => Ok(()),
        }
    }

    /// Records in samples how many results are ready.
    fn note_ready(&self) {
        if let Some(stage) = self.shared.stage.as_ref().filter(|_| is_sampled()) {
            let ready = self.places.iter().filter(|place| place.is_some()).count();
            stage.note_ready(ready, self.threads() * WINDOW_PER_CALL);
            stage.set_threads(self.threads().min(self.shared.pool.threads()));
        }
    }

    fn finish_calls(&mut self) -> Result<(), ExecError> {
        while self.under_way > 0 {
            self.wait(None)?;
        }
        Ok(())
    }
}

impl Iterate for ParallelMap {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        loop {
            while let Ok((number, finished)) = self.results.try_recv() {
                self.place(number, finished);
            }
            let end = self.top_up()?;
            self.note_ready();
            if let Some(outcome) = self.ready() {
                match outcome? {
                    Some(item) => return Ok(Some(item)),
                    None => continue,
                }
            }
            match end {
                Some(end) if self.under_way == 0 => return end.map(|()| None),
                Some(_) => self.wait(None)?,
                None => self.wait(self.room())?,
            }
        }
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.finish_calls()?;
        if self.ordered {
            self.first = self.first.wrapping_add(self.places.len() as u64);
        }
        self.places.clear();
        self.pass = self.pass.wrapping_add(1);
        self.faults.next_pass();
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        self.finish_calls()?;
        state.begin("parallel_map")?;
        state.number(self.pass)?;
        for finished in self.places.iter().flatten() {
            match &finished.outcome {
                Ok(Some(item)) => {
                    state.flag(true)?;
                    state.flag(true)?;
                    state.item(item)?;
                }
                Ok(None) => {}
                Err(error) => {
                    state.flag(true)?;
                    state.flag(false)?;
                    state.failure(error)?;
                }
            }
        }
        state.flag(false)?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("parallel_map")?;
        self.pass = state.number()?;
        while state.flag()? {
            let outcome = if state.flag()? {
                Ok(Some(state.item()?))
            } else {
                Err(state.failure()?)
            };
            let bytes = outcome.iter().flatten().map(Item::held_bytes).sum();
            let charge = self.shared.budget.charge(bytes);
            self.places.push_back(Some(Finished { outcome, charge }));
        }
        self.input.restore(state)
    }
}
