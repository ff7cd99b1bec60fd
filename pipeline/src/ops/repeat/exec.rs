//! `repeat`: the input, pass after pass.
//!
//! When everything is read here, `repeat(n)` ends after n passes and `repeat(None)` never; both end early
//! when a pass yields nothing, since the next would not either. When the sources are fed splits, a pass may
//! be empty only because other workers took its splits: then `repeat(n)` makes exactly n passes, and
//! `repeat(None)` goes on until it is stopped. Passes that others have left behind are gone through at once.
//! Between other empty passes it pauses, ever longer up to [`PAUSE_MAX`]. A dataset of which nothing is left
//! (a filter that drops everything) then costs no more than a few questions a second.
//!
//! So it is where a service is read whose job others read too: they may have had all of a pass. After
//! [`SHARED_PASSES_MAX`] empty ones in a row there is nothing to be had.

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

/// The room of the operation.
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

/// The longest pause between empty passes.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// The longest pause between empty passes of a service, of which each is asked for by itself.
const SHARED_PAUSE_MAX: Duration = Duration::from_millis(4);

/// Empty passes in a row after which a dataset that others read too ends: a reader that comes late has as
/// many to catch up with.
const SHARED_PASSES_MAX: u32 = 1000;

pub(crate) struct Repeat {
    count: Option<u64>,
    input: Input,
    /// Whether the sources are fed splits.
    fed: bool,
    cancel: Cancel,
    /// Passes completed.
    pass: u64,
    /// Whether this pass has yielded anything.
    yielded: bool,
    /// Passes since the last that yielded anything, without those that others had left behind.
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

    /// Returns the number of the pass, from 0 on.
    pub(crate) fn pass(&self) -> u64 {
        self.pass
    }

    /// Moves on to the next pass; `false` when there is none.
    fn next_pass(&mut self) -> Result<bool, ExecError> {
        self.cancel.check("repeat")?;
        if self
            .count
            .is_some_and(|count| self.pass.saturating_add(1) >= count)
        {
            return Ok(false);
        }
        // Behind the count: who asks a feed that is being drained has not read to the end.
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
                    // What comes after must not draw for this pass as it drew for the last.
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
