//! The execution of `repeat`, which reads its input pass after pass.
//!
//! If this execution reads the whole dataset, `repeat(n)` ends after n passes and `repeat(None)` never
//! ends. The two end early if a pass yields nothing, because later passes would be empty too.
//!
//! If the sources read splits, a pass may be empty only because other workers took its splits. Then
//! `repeat(n)` makes exactly n passes, and `repeat(None)` continues until it is stopped. Passes that
//! other workers have already finished are skipped at once. After other empty passes the operation
//! pauses, with a growing pause of up to [`PAUSE_MAX`]. So a dataset whose filter drops everything
//! costs only a few requests per second.
//!
//! A service whose job has other readers behaves alike, because other readers may have taken all
//! elements of a pass. After [`SHARED_PASSES_MAX`] consecutive empty passes, the operation ends.

use std::time::Duration;

use super::definition;
use crate::exec::cancel::Cancel;
use crate::exec::error::ExecError;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::random::mix;
use crate::exec::room::{Room, named};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::graph::codec::decode_params;

/// The entry of `repeat` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["repeat"]],
    decode: decode_params::<definition::Repeat>,
    named: Some(named::<definition::Repeat>),
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = *preparing.of::<definition::Repeat>()?;
    prepared(move |opening| {
        let shared = &opening.own_shared();
        let is_fed = shared.feed.is_some();
        Ok(Box::new(Repeat::new(
            operation.count,
            opening.input()?,
            is_fed,
            shared.cancel.clone(),
        )))
    })
}

/// The maximum pause between empty passes.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// The maximum pause between empty passes of a service. Each pass of a service costs a request of its
/// own.
const SHARED_PAUSE_MAX: Duration = Duration::from_millis(4);

/// The number of consecutive empty passes after which a dataset with other readers ends. A reader that
/// joins late first skips the passes that other readers have finished.
const SHARED_PASSES_MAX: u32 = 1000;

pub(crate) struct Repeat {
    count: Option<u64>,
    input: Input,
    /// Whether the sources read splits.
    fed: bool,
    cancel: Cancel,
    /// The number of completed passes.
    pass: u64,
    /// Whether this pass has yielded an element.
    yielded: bool,
    /// The number of empty passes since the last element, without the passes that other workers had
    /// already finished.
    empty_passes: u32,
    ended: bool,
}

impl Repeat {
    pub(crate) fn new(count: Option<u64>, input: Input, fed: bool, cancel: Cancel) -> Repeat {
        let ended = count == Some(0);
        Repeat {
            count,
            input,
            fed,
            cancel,
            pass: 0,
            yielded: false,
            empty_passes: 0,
            ended,
        }
    }

    /// Returns the number of the current pass, from 0.
    pub(crate) fn pass(&self) -> u64 {
        self.pass
    }

    /// Starts the next pass. Returns `false` if no pass is left.
    fn next_pass(&mut self) -> Result<bool, ExecError> {
        self.cancel.check("repeat")?;
        if self
            .count
            .is_some_and(|count| self.pass.saturating_add(1) >= count)
        {
            return Ok(false);
        }
        // The count is checked before the feed: asking a feed that is shutting down marks the input as
        // not read to its end.
        let further = self.input.further();
        if further == Further::Nothing {
            return Ok(false);
        }
        if self.yielded {
            self.empty_passes = 0;
        } else if further != Further::Behind {
            let pause_max = match further {
                Further::Shared if self.empty_passes >= SHARED_PASSES_MAX => return Ok(false),
                Further::Shared => SHARED_PAUSE_MAX,
                Further::Open | Further::Behind | Further::Nothing if self.fed => PAUSE_MAX,
                Further::Open | Further::Behind | Further::Nothing => return Ok(false),
            };
            self.empty_passes = self.empty_passes.saturating_add(1);
            if self.empty_passes > 1 {
                let pause = Duration::from_millis(1 << self.empty_passes.min(10));
                self.cancel.pause("repeat", pause.min(pause_max))?;
            }
        }
        self.pass = self.pass.wrapping_add(1);
        self.yielded = false;
        self.input.restart()?;
        Ok(true)
    }
}

impl Iterate for Repeat {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        while !self.ended {
            if let Some(mut item) = self.input.next()? {
                self.yielded = true;
                if self.pass > 0 {
                    // Operations above must not repeat their draws of an earlier pass.
                    item.position = mix(item.position, self.pass);
                }
                return Ok(Some(item));
            }
            self.ended = !self.next_pass()?;
        }
        Ok(None)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        (self.pass, self.yielded, self.empty_passes) = (0, false, 0);
        self.ended = self.count == Some(0);
        self.input.restart()
    }

    fn further(&self) -> Further {
        if self.count == Some(0) {
            Further::Nothing
        } else {
            self.input.further()
        }
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("repeat")?;
        state.number(self.pass)?;
        state.flag(self.yielded)?;
        state.flag(self.ended)?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("repeat")?;
        self.pass = state.number()?;
        self.yielded = state.flag()?;
        self.ended = state.flag()?;
        self.input.restore(state)
    }
}
