//! The execution of `cache` in a directory. The first execution that reads a pass to its end writes the
//! directory, and every other pass reads the directory.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use crate::exec::call;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::item::Item;
use crate::exec::item_bytes::decoded;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::token;
use crate::saved::{Begun, ElementReader, Place, Sink};

use crate::exec::keeping::Keeping;

pub(crate) struct FileCache {
    keeping: Keeping,
    input: Input,
    mode: Mode,
    /// Whether an earlier pass has read the input.
    input_is_read: bool,
}

enum Mode {
    /// The caller has not asked for an element in this pass yet.
    Unopened,
    Reading(Reading),
    Writing(Sink),
    /// The pass forwards the input and keeps no elements.
    Passing,
    /// The pass has ended.
    Ended,
}

struct Reading {
    reader: ElementReader<BufReader<File>>,
    read: u64,
}

impl FileCache {
    pub(crate) fn new(keeping: Keeping, input: Input) -> FileCache {
        FileCache {
            keeping,
            input,
            mode: Mode::Unopened,
            input_is_read: false,
        }
    }

    fn open(&mut self) -> Result<(), ExecError> {
        self.mode = match self.keeping.begin()? {
            Begun::Whole(shards) => self.reading(shards.first().map(|shard| &**shard), 0, 0)?,
            Begun::Writing(sink) => {
                if std::mem::take(&mut self.input_is_read) {
                    self.input.restart()?;
                }
                Mode::Writing(sink)
            }
            Begun::Taken => return Err(self.taken()),
        };
        Ok(())
    }

    fn taken(&self) -> ExecError {
        let message = format!(
            "{} is being written by another execution: wait for that execution, or give each execution its own directory",
            self.keeping.path()
        );
        ExecError::new(ErrorKind::Resource, "cache", message)
    }

    /// Opens `shard` for reading at `place`, after `read` elements. Without a shard the directory holds
    /// no elements.
    fn reading(&self, shard: Option<&Path>, place: u64, read: u64) -> Result<Mode, ExecError> {
        let Some(shard) = shard else {
            return Ok(Mode::Ended);
        };
        let opened = File::open(shard).and_then(|file| ElementReader::new(BufReader::new(file)));
        let mut reader = opened.map_err(|error| self.keeping.failed("read", &error))?;
        if reader.header().spec() != self.keeping.spec() {
            let message = format!(
                "{} holds elements of the spec {}, expected {}: remove the directory, or use another one",
                self.keeping.path(),
                reader.header().spec(),
                self.keeping.spec()
            );
            return Err(ExecError::new(ErrorKind::Caller, "cache", message));
        }
        let gone = reader.go_to(Place::of(place), read);
        gone.map_err(|error| self.keeping.failed("read", &error))?;
        Ok(Mode::Reading(Reading { reader, read }))
    }

    /// Returns the next element of the directory, or `None` at its end.
    fn read(&mut self) -> Result<Option<Item>, ExecError> {
        let Mode::Reading(Reading { reader, read }) = &mut self.mode else {
            return Ok(None);
        };
        let damaged = |reason: String| std::io::Error::new(std::io::ErrorKind::InvalidData, reason);
        let next = reader
            .element()
            .and_then(|element| element.map(decoded).transpose().map_err(damaged));
        let item = next.map_err(|error| self.keeping.failed("read", &error))?;
        *read += u64::from(item.is_some());
        Ok(item)
    }

    fn end(&mut self) -> Result<(), ExecError> {
        match std::mem::replace(&mut self.mode, Mode::Ended) {
            Mode::Writing(sink) => {
                self.input_is_read = true;
                self.keeping.finish(sink)
            }
            Mode::Passing => {
                self.input_is_read = true;
                Ok(())
            }
            Mode::Unopened | Mode::Reading(_) | Mode::Ended => Ok(()),
        }
    }

    /// Skips `count` elements of a directory that another execution has finished in the meantime.
    fn pass_over(&mut self, count: u64) -> Result<(), ExecError> {
        for _ in 0..count {
            self.read()?;
        }
        Ok(())
    }
}

impl Iterate for FileCache {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        if let Mode::Unopened = self.mode {
            self.open()?;
        }
        let item = match &mut self.mode {
            Mode::Reading(_) => self.read()?,
            Mode::Writing(sink) => match self.input.next()? {
                None => None,
                Some(item) => {
                    let item = call::settled(item)?;
                    let written = self.keeping.write(sink, 0, &item);
                    written.inspect_err(|_| token::abandon(&item.marks))?;
                    Some(item)
                }
            },
            Mode::Passing => self.input.next()?,
            Mode::Unopened | Mode::Ended => None,
        };
        if item.is_none() {
            self.end()?;
        }
        Ok(item)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        match std::mem::replace(&mut self.mode, Mode::Unopened) {
            Mode::Writing(sink) => {
                self.input_is_read = true;
                self.keeping.discard(sink)
            }
            Mode::Passing => {
                self.input_is_read = true;
                Ok(())
            }
            Mode::Unopened | Mode::Reading(_) | Mode::Ended => Ok(()),
        }
    }

    fn further(&self) -> Further {
        match &self.mode {
            Mode::Reading(_) | Mode::Ended => Further::Open,
            Mode::Unopened | Mode::Writing(_) | Mode::Passing => self.input.further(),
        }
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("file_cache")?;
        state.flag(self.input_is_read)?;
        match &mut self.mode {
            Mode::Unopened => state.number(0)?,
            Mode::Reading(Reading { reader, read }) => {
                state.number(1)?;
                state.number(reader.place().number())?;
                state.number(*read)?;
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
        state.begin("file_cache")?;
        self.input_is_read = state.flag()?;
        self.mode = match state.number()? {
            0 => Mode::Unopened,
            1 => {
                let (place, read) = (state.number()?, state.number()?);
                match self.keeping.begin()? {
                    Begun::Whole(shards) => {
                        self.reading(shards.first().map(|shard| &**shard), place, read)?
                    }
                    Begun::Writing(_) | Begun::Taken => {
                        let gone = std::io::ErrorKind::NotFound.into();
                        return Err(self.keeping.failed("continue reading", &gone).into());
                    }
                }
            }
            2 => match self.keeping.restore(state)? {
                (Some(Begun::Writing(sink)), _) => Mode::Writing(sink),
                (Some(Begun::Whole(shards)), written) => {
                    self.mode = self.reading(shards.first().map(|shard| &**shard), 0, 0)?;
                    self.pass_over(written)?;
                    self.input_is_read = true;
                    std::mem::replace(&mut self.mode, Mode::Ended)
                }
                (Some(Begun::Taken), _) => return Err(self.taken().into()),
                (None, _) => Mode::Passing,
            },
            3 => Mode::Passing,
            4 => Mode::Ended,
            other => {
                return Err(StateError::Malformed(format!(
                    "invalid mode {other} of a cache, expected 0 to 4"
                )));
            }
        };
        self.input.restore(state)
    }
}
