//! An operation being measured: itself, with its elements counted and some of its calls timed.

use std::sync::Arc;

use millstream_element::PackWriter;

use super::sampler::Sampler;
use super::stage::Stage;
use crate::exec::error::ExecError;
use crate::exec::item::Item;
use crate::exec::iterate::{Filled, Further, Input, Iterate};
use crate::exec::state::{StateError, StateReader, StateWriter};

pub(crate) struct Measured {
    input: Input,
    stage: Arc<Stage>,
    sampler: Sampler,
}

impl Measured {
    pub(crate) fn new(input: Input, stage: Arc<Stage>) -> Measured {
        Measured {
            input,
            stage,
            sampler: Sampler::default(),
        }
    }
}

impl Iterate for Measured {
    #[inline]
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        let Measured { input, stage, sampler } = self;
        let next = sampler.run(|| input.next(), |sample| stage.note(sample));
        if let Ok(Some(_)) = &next {
            stage.count(1);
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
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        self.input.restore(state)
    }

    fn fill_pack(
        &mut self,
        pack: &mut PackWriter,
        sequence: u64,
        limit: usize,
    ) -> Option<Result<Filled, ExecError>> {
        let Measured { input, stage, sampler } = self;
        let filled = sampler.run(
            || input.fill_pack(pack, sequence, limit),
            |sample| stage.note(sample),
        );
        if let Some(Ok(filled)) = &filled {
            stage.count(filled.count as u64);
        }
        filled
    }
}
