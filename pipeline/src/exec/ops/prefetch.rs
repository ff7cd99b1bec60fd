//! `prefetch`: a bounded buffer that a thread of its own fills ahead.

use crossbeam_channel::{never, select};

use crate::exec::context::Shared;
use crate::exec::error::ExecError;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::measure::is_sampled;
use crate::exec::state::{StateError, StateReader, StateWriter};

use super::read_ahead::{Polled, ReadAhead};

pub(crate) struct Prefetch {
    ahead: ReadAhead,
    shared: Shared,
}

impl Prefetch {
    pub(crate) fn new(buffer: u64, input: Input, shared: Shared) -> Prefetch {
        let size = usize::try_from(buffer).unwrap_or(usize::MAX);
        if let Some(stage) = &shared.stage {
            stage.set_threads(1);
        }
        Prefetch {
            ahead: ReadAhead::new("prefetch", size, input, shared.clone()),
            shared,
        }
    }
}

impl Iterate for Prefetch {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        if let Some(stage) = self.shared.stage.as_ref().filter(|_| is_sampled()) {
            let (ready, of) = self.ahead.ready();
            stage.note_ready(ready, of);
        }
        loop {
            match self.ahead.poll()? {
                Polled::Item(item) => return Ok(Some(item)),
                Polled::Ended(end) => return end.map(|()| None),
                Polled::Pending => {}
            }
            let nothing = never();
            select! {
                recv(self.ahead.arrivals().unwrap_or(&nothing)) -> held => if let Ok((item, _)) = held {
                    return Ok(Some(item));
                },
                recv(self.shared.cancel.signal()) -> _ => return Err(ExecError::cancelled("prefetch")),
            }
        }
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.ahead.restart()
    }

    fn further(&self) -> Further {
        self.ahead.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("prefetch")?;
        self.ahead.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("prefetch")?;
        self.ahead.restore(state)
    }
}
