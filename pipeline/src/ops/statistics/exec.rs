//! The execution of `statistics`, which measures the elements that pass through.

use std::time::Instant;

use super::definition;
use crate::exec::error::ExecError;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::room::Room;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::statistics::Stage;
use crate::exec::value::Tensor;
use crate::graph::codec::decode_params;

/// The entry of `statistics` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["statistics"]],
    decode: decode_params::<definition::Statistics>,
    named: None,
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = preparing.of::<definition::Statistics>()?.clone();
    prepared(move |opening| {
        let stage = opening.shared.statistics.stage(&operation.name);
        Ok(Box::new(Statistics::new(stage, opening.input()?)))
    })
}

pub(crate) struct Statistics {
    stage: Stage,
    input: Input,
}

impl Statistics {
    pub(crate) fn new(stage: Stage, input: Input) -> Statistics {
        Statistics { stage, input }
    }
}

impl Iterate for Statistics {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        let begin = Instant::now();
        let next = self.input.next();
        match &next {
            Ok(Some(item)) => {
                let bytes = item.value.iter().map(Tensor::size_bytes).sum();
                self.stage.element(begin.elapsed(), bytes);
            }
            Ok(None) => {}
            Err(_) => self.stage.failure(),
        }
        next
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("statistics")?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("statistics")?;
        self.input.restore(state)
    }
}
