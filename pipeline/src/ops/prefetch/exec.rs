//! The execution of `prefetch`, in which a separate thread fills a bounded buffer.

use crossbeam_channel::{never, select};

use crate::exec::context::Shared;
use crate::exec::error::ExecError;
use crate::exec::expected::Expected;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::measure::is_sampled;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::tune::Buffer;
use crate::graph::AUTO;

use super::definition;
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::read_ahead::{AHEAD_MAX, Polled, ReadAhead};
use crate::exec::room::{Room, named};
use crate::graph::codec::decode_params;

/// The entry of `prefetch` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["prefetch"]],
    decode: decode_params::<definition::Prefetch>,
    named: Some(named::<definition::Prefetch>),
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = *preparing.of::<definition::Prefetch>()?;
    prepared(move |opening| {
        let shared = &opening.own_shared();
        let expected = Expected::of(opening.spec());
        Ok(Box::new(Prefetch::new(
            operation.buffer,
            expected,
            opening.input()?,
            shared.clone(),
        )))
    })
}

pub(crate) struct Prefetch {
    ahead: ReadAhead,
    /// The tuner of the buffer size. `None` if the size of the buffer is fixed.
    buffer: Option<Buffer>,
    /// The bytes of the last element, or 0 if the size is not tuned.
    element_bytes: usize,
    shared: Shared,
}

impl Prefetch {
    /// Makes a buffer of `buffer` elements. With [`AUTO`], the buffer starts with two elements and
    /// grows on demand, if the pipeline has a tuner.
    pub(crate) fn new(buffer: u64, expected: Expected, input: Input, shared: Shared) -> Prefetch {
        let (size, buffer) = if buffer == u64::from(AUTO) {
            let buffer = Buffer::new(AHEAD_MAX);
            (buffer.size(), shared.tuner.is_some().then_some(buffer))
        } else {
            (usize::try_from(buffer).unwrap_or(usize::MAX), None)
        };
        if let Some(stage) = &shared.stage {
            stage.set_threads(1);
        }
        Prefetch {
            ahead: ReadAhead::new("prefetch", size, expected, input, shared.clone()),
            buffer,
            element_bytes: 0,
            shared,
        }
    }

    /// Begins to fill the buffer before the first element is requested.
    ///
    /// # Errors
    /// [`ExecError`] if no thread can be started.
    pub(crate) fn begin(&mut self) -> Result<(), ExecError> {
        self.ahead.begin()
    }

    fn pulled(&mut self) -> Result<Option<Item>, ExecError> {
        if let Some(stage) = self.shared.stage.as_ref().filter(|_| is_sampled()) {
            let (ready, of) = self.ahead.ready();
            stage.note_ready(ready, of);
        }
        loop {
            match self.ahead.poll()? {
                Polled::Item((item, _)) => return Ok(Some(item)),
                Polled::Ended(end) => return end.map(|()| None),
                Polled::Pending => {}
            }
            self.ahead.want();
            let nothing = never();
            select! {
                recv(self.ahead.arrivals().unwrap_or(&nothing)) -> held => if let Ok((item, _)) = held {
                    self.ahead.took();
                    return Ok(Some(item));
                },
                recv(self.shared.cancel.signal()) -> _ => return Err(ExecError::cancelled("prefetch")),
            }
        }
    }

    /// Enlarges the buffer if measurements show that the buffer is too small.
    fn tune(&mut self) -> Result<(), ExecError> {
        let Some(buffer) = &mut self.buffer else {
            return Ok(());
        };
        let budget = &self.shared.budget;
        let left_bytes = budget.limit_bytes().saturating_sub(budget.held_bytes());
        if buffer.note(self.ahead.ready().0, self.element_bytes, left_bytes) {
            self.ahead.resize(buffer.size())?;
        }
        Ok(())
    }
}

impl Iterate for Prefetch {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        self.tune()?;
        let next = self.pulled();
        if let (Some(_), Ok(Some(item))) = (&self.buffer, &next) {
            self.element_bytes = item.held_bytes();
        }
        next
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
