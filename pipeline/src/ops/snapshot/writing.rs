//! The execution of `snapshot`. Writes the elements of the input to shards. Once all elements are
//! written, reads the shards instead of the input.

use std::path::PathBuf;

use crate::exec::call::{self, Chain};
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::faults::Faults;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::saved::SHARDS;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::token;
use crate::exec::value::{Tensor, Value};
use crate::saved::{Begun, Sink};

use crate::exec::body::{Body, Given, Opened};
use crate::exec::groups::number;
use crate::exec::keeping::Keeping;

pub(crate) struct Snapshot {
    keeping: Keeping,
    /// The function that returns the shard of an element. `None` writes to the shards in turn.
    shard: Option<Chain>,
    /// The error policy of the shard function. The function may be retried, but its element cannot be
    /// skipped, because other passes would still yield that element.
    faults: Faults,
    reader: Body,
    input: Input,
    mode: Mode,
    pass: u64,
    /// The number of elements of the current pass that the input yielded.
    passed: u64,
    /// Whether an earlier pass has read the input.
    input_is_read: bool,
}

enum Mode {
    /// The caller has not asked for an element in this pass yet.
    Unopened,
    Reading(Box<Opened>),
    Writing(Sink),
    /// The pass forwards the input and keeps no elements.
    Passing,
    /// The pass has ended.
    Ended,
}

impl Snapshot {
    pub(crate) fn new(
        keeping: Keeping,
        shard: Option<Chain>,
        reader: Body,
        input: Input,
        shared: &Shared,
    ) -> Snapshot {
        Snapshot {
            keeping,
            shard,
            faults: shared.faults().raising(),
            reader,
            input,
            mode: Mode::Unopened,
            pass: 0,
            passed: 0,
            input_is_read: false,
        }
    }

    fn open(&mut self) -> Result<(), ExecError> {
        let begun = self.keeping.begin()?;
        if !matches!(begun, Begun::Whole(_)) && std::mem::take(&mut self.input_is_read) {
            self.input.restart()?;
        }
        self.passed = 0;
        self.mode = match begun {
            Begun::Whole(shards) => self.reading(&shards)?,
            Begun::Writing(sink) => Mode::Writing(sink),
            Begun::Taken => {
                let path = self.keeping.path();
                tracing::info!(
                    path,
                    "another execution writes the snapshot, so this one forwards its input"
                );
                Mode::Passing
            }
        };
        Ok(())
    }

    /// Opens the dataset that the reader function makes from the paths of the shards.
    fn reading(&self, shards: &[PathBuf]) -> Result<Mode, ExecError> {
        let mut paths = Vec::new();
        for (index, shard) in shards.iter().enumerate() {
            let path = shard.to_str().ok_or_else(|| {
                let message = format!("expected a path in UTF-8, found {}", shard.display());
                ExecError::new(ErrorKind::Caller, "snapshot", message)
            })?;
            paths.push(Item::new(Value::from_buf([Tensor::string(path)]), index as u64));
        }
        let opened = self.reader.open(Given::window(paths), self.pass)?;
        Ok(Mode::Reading(Box::new(opened)))
    }

    /// Writes an element of the input to its shard, and returns the element.
    fn write(&mut self, item: Item) -> Result<Item, ExecError> {
        let item = call::settled(item)?;
        let shard = match &self.shard {
            None => self.passed % SHARDS,
            Some(chain) => {
                let shard = number("snapshot", chain, &item, self.pass, &self.faults)?;
                shard.and_then(|shard| u64::try_from(shard).ok()).ok_or_else(|| {
                    token::abandon(&item.marks);
                    let shard = shard.unwrap_or_default();
                    let message = format!("the shard of an element is {shard}: shards are numbered from 0");
                    let error = ExecError::new(ErrorKind::Data, "snapshot", message);
                    error.at(item.origin.as_ref()).at_position(item.position)
                })?
            }
        };
        if let Mode::Writing(sink) = &mut self.mode {
            let written = self.keeping.write(sink, shard, &item);
            written.inspect_err(|_| token::abandon(&item.marks))?;
        }
        Ok(item)
    }

    fn end(&mut self) -> Result<(), ExecError> {
        let mode = std::mem::replace(&mut self.mode, Mode::Ended);
        self.input_is_read |= matches!(mode, Mode::Writing(_) | Mode::Passing);
        match mode {
            Mode::Writing(sink) => self.keeping.finish(sink),
            Mode::Unopened | Mode::Reading(_) | Mode::Passing | Mode::Ended => Ok(()),
        }
    }
}

impl Iterate for Snapshot {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        if let Mode::Unopened = self.mode {
            self.open()?;
        }
        let item = match &mut self.mode {
            Mode::Reading(opened) => self.reader.next(opened)?,
            Mode::Writing(_) => match self.input.next()? {
                Some(item) => Some(self.write(item)?),
                None => None,
            },
            Mode::Passing => self.input.next()?,
            Mode::Unopened | Mode::Ended => None,
        };
        match item {
            Some(_) => self.passed = self.passed.wrapping_add(1),
            None => self.end()?,
        }
        Ok(item)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        let mode = std::mem::replace(&mut self.mode, Mode::Unopened);
        self.input_is_read |= matches!(mode, Mode::Writing(_) | Mode::Passing);
        self.pass = self.pass.wrapping_add(1);
        match mode {
            Mode::Writing(sink) => self.keeping.discard(sink),
            Mode::Unopened | Mode::Reading(_) | Mode::Passing | Mode::Ended => Ok(()),
        }
    }

    fn further(&self) -> Further {
        match &self.mode {
            Mode::Reading(_) | Mode::Ended => Further::Open,
            Mode::Unopened | Mode::Writing(_) | Mode::Passing => self.input.further(),
        }
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("snapshot")?;
        state.number(self.pass)?;
        state.number(self.passed)?;
        state.flag(self.input_is_read)?;
        match &mut self.mode {
            Mode::Unopened => state.number(0)?,
            Mode::Reading(opened) => {
                state.number(1)?;
                Body::save(opened, state)?;
            }
            Mode::Writing(sink) => {
                state.number(2)?;
                self.keeping.save(sink, state)?;
            }
            Mode::Passing => state.number(3)?,
            Mode::Ended => state.number(4)?,
        }
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("snapshot")?;
        self.pass = state.number()?;
        self.passed = state.number()?;
        self.input_is_read = state.flag()?;
        self.mode = match state.number()? {
            0 => Mode::Unopened,
            1 => Mode::Reading(Box::new(self.reader.restore(state, self.pass)?)),
            2 => match self.keeping.restore(state)?.0 {
                Some(Begun::Writing(sink)) => Mode::Writing(sink),
                // Another execution has written the snapshot or writes now, so the rest of this pass
                // comes from the input.
                Some(Begun::Whole(_) | Begun::Taken) | None => Mode::Passing,
            },
            3 => Mode::Passing,
            4 => Mode::Ended,
            other => {
                return Err(StateError::Malformed(format!(
                    "invalid mode {other} of a snapshot, expected 0 to 4"
                )));
            }
        };
        self.input.restore(state)
    }
}
