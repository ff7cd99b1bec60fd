//! The execution of `rejection_resample`, which drops elements of classes that are too frequent. Each
//! draw is a function of the seed, the epoch, the pass and the draw's number.

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

/// The entry of `rejection_resample` in the table of operations.
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

/// The initial count of each class, as in tf.data. The count keeps the first few elements from changing
/// the estimated frequencies too much.
const SEEN_BEFORE: u64 = 10;
/// The number of different values that a draw can have.
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
    /// The number of elements of this pass that were kept or dropped by a draw.
    passed: u64,
    /// The number of elements of each class in this pass, plus the initial count.
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

    /// Returns the class of `item`, and counts the class. Returns `None` if `item` failed and the error
    /// policy skips it.
    fn class_of(&mut self, item: &Item) -> Result<Option<usize>, ExecError> {
        let Some(class) = number("rejection_resample", &self.class, item, self.pass, &self.faults)? else {
            return Ok(None);
        };
        let index = usize::try_from(class)
            .ok()
            .filter(|index| *index < self.seen.len());
        let Some(index) = index else {
            let message = format!(
                "the class of an element is {class}, expected 0 to {}",
                self.seen.len() - 1
            );
            let error = ExecError::new(ErrorKind::Value, "rejection_resample", message);
            let error = error.at(item.origin.as_ref()).at_position(item.position);
            return self.faults.leave_out(error, &item.marks).map(|()| None);
        };
        self.seen[index] = self.seen[index].saturating_add(1);
        Ok(Some(index))
    }

    /// Returns the probability of keeping an element of `class`. The probability is 1 for the class
    /// that is the rarest relative to its target.
    fn kept(&self, class: usize) -> f64 {
        let ratio = |class: usize| {
            let frequency = match &self.params.initial {
                Some(initial) => initial[class],
                None => self.seen[class] as f64,
            };
            // The graph's checks refuse a target above 0 for a class whose initial frequency is 0.
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
        self.faults.next_pass();
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
