//! The shared execution of `sample` and `choose`. Takes each element from one of several inputs, which
//! random draws or a dataset of indices choose.

use crate::exec::cancel::Cancel;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::random::{self, Seeds};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::value::Tensor;

use crate::ops::concatenate::exec::{further_of_any, of_input};

/// The choice of the input that yields the next element.
pub(crate) trait Picks: Send {
    /// The name of the operation, for saved states and errors.
    const OP: &'static str;

    /// Returns the index of the next input to read, or `None` at the end of the choices. `ended` states
    /// which inputs have ended in this pass.
    fn pick(&mut self, ended: &[bool]) -> Result<Option<usize>, ExecError>;

    /// Starts the next pass, like [`Iterate::restart`].
    fn restart(&mut self) -> Result<(), ExecError>;

    /// Returns the knowledge about further passes, like [`Iterate::further`].
    fn further(&self) -> Further;

    /// Saves the position, like [`Iterate::save`].
    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError>;

    /// Restores the position, like [`Iterate::restore`].
    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError>;
}

pub(crate) struct Pick<P> {
    picks: P,
    inputs: Vec<Input>,
    /// Whether each input has ended in this pass.
    ended: Vec<bool>,
    stop_on_empty: bool,
    over: bool,
    cancel: Cancel,
}

impl<P: Picks> Pick<P> {
    pub(crate) fn new(picks: P, inputs: Vec<Input>, stop_on_empty: bool, cancel: Cancel) -> Pick<P> {
        Pick {
            picks,
            ended: vec![false; inputs.len()],
            inputs,
            stop_on_empty,
            over: false,
            cancel,
        }
    }
}

impl<P: Picks> Iterate for Pick<P> {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        while !self.over {
            self.cancel.check(P::OP)?;
            let Some(picked) = self.picks.pick(&self.ended)? else {
                self.over = true;
                break;
            };
            if self.ended[picked] {
                continue;
            }
            if let Some(mut item) = self.inputs[picked].next()? {
                item.position = of_input(item.position, picked);
                return Ok(Some(item));
            }
            self.ended[picked] = true;
            self.over = self.stop_on_empty || self.ended.iter().all(|ended| *ended);
        }
        Ok(None)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.over = false;
        self.ended.fill(false);
        self.picks.restart()?;
        self.inputs.iter_mut().try_for_each(|input| input.restart())
    }

    fn further(&self) -> Further {
        match self.picks.further() {
            Further::Nothing => Further::Nothing,
            Further::Open | Further::Behind | Further::Shared => further_of_any(&self.inputs),
        }
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin(P::OP)?;
        state.flag(self.over)?;
        self.ended.iter().try_for_each(|ended| state.flag(*ended))?;
        self.picks.save(state)?;
        self.inputs.iter_mut().try_for_each(|input| input.save(state))
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin(P::OP)?;
        self.over = state.flag()?;
        for ended in &mut self.ended {
            *ended = state.flag()?;
        }
        self.picks.restore(state)?;
        self.inputs.iter_mut().try_for_each(|input| input.restore(state))
    }
}

/// The random choices of `sample`. The n-th choice of a pass is a function of the seed, the epoch, the
/// pass and n. The choice also depends on which inputs have ended, because ended inputs are not drawn.
pub(crate) struct Draws {
    weights: Vec<f64>,
    seeds: Seeds,
    draws: random::Draws,
    pass: u64,
    /// The number of choices in this pass.
    drawn: u64,
}

impl Draws {
    pub(crate) fn new(weights: &[f64], seeds: Seeds) -> Draws {
        Draws {
            weights: weights.to_vec(),
            seeds,
            draws: seeds.draws(0),
            pass: 0,
            drawn: 0,
        }
    }
}

impl Picks for Draws {
    const OP: &'static str = "sample";

    fn pick(&mut self, ended: &[bool]) -> Result<Option<usize>, ExecError> {
        let left = || {
            self.weights
                .iter()
                .zip(ended)
                .enumerate()
                .filter(|(_, (_, ended))| !**ended)
        };
        let sum: f64 = left().map(|(_, (weight, _))| weight).sum();
        // An f64 can represent 2^53 evenly spaced numbers between 0 and 1.
        let steps = 1u64 << f64::MANTISSA_DIGITS;
        let drawn = self.draws.below(self.drawn, steps) as f64 / steps as f64 * sum;
        self.drawn = self.drawn.wrapping_add(1);
        let mut bound = 0.0;
        let mut picked = None;
        for (index, (weight, _)) in left() {
            picked = Some(index);
            bound += weight;
            if drawn < bound {
                break;
            }
        }
        Ok(picked)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.pass = self.pass.wrapping_add(1);
        self.draws = self.seeds.draws(self.pass);
        self.drawn = 0;
        Ok(())
    }

    fn further(&self) -> Further {
        Further::Open
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.number(self.pass)?;
        state.number(self.drawn)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        self.pass = state.number()?;
        self.draws = self.seeds.draws(self.pass);
        self.drawn = state.number()?;
        Ok(())
    }
}

/// The choices of `choose`, which a dataset of indices yields.
pub(crate) struct Choices {
    numbers: Input,
    /// The number of inputs to choose from.
    inputs: usize,
    /// The number of the operation's node, for errors.
    node: u32,
}

impl Choices {
    pub(crate) fn new(numbers: Input, inputs: usize, node: u32) -> Choices {
        Choices {
            numbers,
            inputs,
            node,
        }
    }
}

impl Picks for Choices {
    const OP: &'static str = "choose";

    fn pick(&mut self, _: &[bool]) -> Result<Option<usize>, ExecError> {
        let next = self.numbers.next();
        let Some(item) = next.map_err(|error| error.stand_within(self.node))? else {
            return Ok(None);
        };
        let failed = |message: String| {
            let error = ExecError::new(ErrorKind::Value, "choose", message);
            Err(error.at(item.origin.as_ref()).at_position(item.position))
        };
        let settled = item.value.first().map(Tensor::settled).transpose()?;
        let Some(number) = settled.and_then(|tensor| tensor.as_i64()) else {
            return failed("expected an i64 scalar as a choice".to_owned());
        };
        match usize::try_from(number) {
            Ok(index) if index < self.inputs => Ok(Some(index)),
            Ok(_) | Err(_) => failed(format!(
                "a choice is {number}, which is not the index of one of {} datasets, counted from 0",
                self.inputs
            )),
        }
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.numbers.restart()
    }

    fn further(&self) -> Further {
        self.numbers.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        self.numbers.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        self.numbers.restore(state)
    }
}
