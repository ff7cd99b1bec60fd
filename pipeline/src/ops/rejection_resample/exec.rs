//! `rejection_resample`: elements with their classes, of each class as many dropped as there are too many. A
//! draw is a function of seed, epoch, pass and number.

use crate::exec::call::Chain;
use crate::exec::cancel::Cancel;
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::faults::Faults;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::random::{Draws, Seeds};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::value::{Tensor, Value};
use crate::graph;

use super::definition;
use crate::exec::groups::number;
use crate::exec::program::Program;
use crate::exec::program::{OpenError, Opening, Prepared, Preparing};
use crate::exec::room::Room;
use std::sync::Arc;

/// The room of the operation.
pub(crate) const ROOM: Room = Room {
    names: &[&["rejection_resample"]],
    decode: definition::decode,
    named: None,
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = preparing.of::<definition::Resampling>()?;
    Ok(Box::new(WithResampling {
        function: preparing.body(&operation.class, Some(preparing.input()?))?,
        operation: operation.clone(),
    }))
}

struct WithResampling {
    operation: definition::Resampling,
    function: Arc<Program>,
}

impl Prepared for WithResampling {
    fn open(&self, opening: &Opening<'_>) -> Result<Input, ExecError> {
        let input = opening.input()?;
        let shared = &opening.own_shared();
        let params = &self.operation.params;
        let seeds = shared.seeds(opening.drawn(), params.seed);
        let class = self.function.chain(shared)?;
        Ok(Box::new(RejectionResample::new(
            params.clone(),
            seeds,
            class,
            input,
            shared,
        )))
    }

    fn listings(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        self.function.listings()
    }
}

/// Elements of each class that count as seen before the first, as upstream: a guess that the first ones do
/// not overturn.
const SEEN_BEFORE: u64 = 10;
/// The number of values that a draw can have.
const DRAWS: u64 = 1 << 53;

pub(crate) struct RejectionResample {
    params: graph::RejectionResample,
    class: Chain,
    input: Input,
    cancel: Cancel,
    faults: Faults,
    seeds: Seeds,
    draws: Draws,
    pass: u64,
    /// Elements of this pass.
    passed: u64,
    /// Elements of each class in this pass, and those that count as seen before.
    seen: Vec<u64>,
}

impl RejectionResample {
    pub(crate) fn new(
        params: graph::RejectionResample,
        seeds: Seeds,
        class: Chain,
        input: Input,
        shared: &Shared,
    ) -> RejectionResample {
        RejectionResample {
            seen: vec![SEEN_BEFORE; params.target.len()],
            params,
            class,
            input,
            cancel: shared.cancel.clone(),
            faults: shared.faults(),
            seeds,
            draws: seeds.draws(0),
            pass: 0,
            passed: 0,
        }
    }

    /// The class of `item`, which is counted.
    fn class_of(&mut self, item: &Item) -> Result<Option<usize>, ExecError> {
        let Some(class) = number("rejection_resample", &self.class, item, self.pass, &self.faults)? else {
            return Ok(None);
        };
        let index = usize::try_from(class)
            .ok()
            .filter(|index| *index < self.seen.len());
        let Some(index) = index else {
            let message = format!(
                "the class of an element is {class}, and there are classes 0 to {}",
                self.seen.len() - 1
            );
            let error = ExecError::new(ErrorKind::Data, "rejection_resample", message);
            let error = error.at(item.origin.as_ref()).at_position(item.position);
            return self.faults.leave_out(error, &item.marks).map(|()| None);
        };
        self.seen[index] = self.seen[index].saturating_add(1);
        Ok(Some(index))
    }

    /// The probability with which an element of `class` is kept: 1 for the class that is the rarest in
    /// relation to what is wanted of it.
    fn kept(&self, class: usize) -> f64 {
        let ratio = |class: usize| {
            let frequency = match &self.params.initial {
                Some(initial) => initial[class],
                None => self.seen[class] as f64,
            };
            // What never occurs is never wanted, which the graph's rules say.
            if frequency > 0.0 {
                self.params.target[class] / frequency
            } else {
                0.0
            }
        };
        let most = (0..self.seen.len()).map(ratio).fold(0.0, f64::max);
        ratio(class) / most
    }
}

impl Iterate for RejectionResample {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        while let Some(mut item) = self.input.next()? {
            self.cancel.check("rejection_resample")?;
            let Some(class) = self.class_of(&item)? else {
                continue;
            };
            let draw = self.draws.below(self.passed, DRAWS) as f64 / DRAWS as f64;
            self.passed = self.passed.wrapping_add(1);
            if draw < self.kept(class) {
                let element =
                    std::mem::replace(&mut item.value, Value::from_buf([Tensor::i64(class as i64)]));
                item.value.extend(element);
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.pass = self.pass.wrapping_add(1);
        self.draws = self.seeds.draws(self.pass);
        self.passed = 0;
        self.seen.fill(SEEN_BEFORE);
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("rejection_resample")?;
        state.number(self.pass)?;
        state.number(self.passed)?;
        self.seen.iter().try_for_each(|seen| state.number(*seen))?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("rejection_resample")?;
        self.pass = state.number()?;
        self.draws = self.seeds.draws(self.pass);
        self.passed = state.number()?;
        for seen in &mut self.seen {
            *seen = state.number()?;
        }
        self.input.restore(state)
    }
}
