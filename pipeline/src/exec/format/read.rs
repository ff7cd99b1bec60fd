//! The operation that reads files: opens the ones whose paths come in, one after the other, and yields what their
//! readers do. Broken records are an error, or counted and left out, as the format's parameters say.

use crate::exec::cancel::Cancel;
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::random::mix;
use crate::exec::skipped::Skipped;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::token;
use crate::graph::{Format, OnError};
use crate::storage::Storage;

use super::path::path_of;
use super::reader::{FileReader, OpenFile, Opened, ReadError, Record, Start};

pub(in crate::exec) struct Read {
    op: &'static str,
    on_error: OnError,
    opener: Box<dyn OpenFile>,
    input: Input,
    cancel: Cancel,
    skipped: Skipped,
    storage: Storage,
    file: Option<OneFile>,
}

/// A file being read.
struct OneFile {
    /// The element whose path it is.
    outer: Item,
    reader: Box<dyn FileReader>,
    /// Records passed, yielded or not.
    passed: u64,
}

impl Read {
    pub(super) fn new(format: &Format, opener: Box<dyn OpenFile>, input: Input, shared: &Shared) -> Read {
        Read {
            op: format.op_name(),
            on_error: format.on_error(),
            opener,
            input,
            cancel: shared.cancel.clone(),
            skipped: shared.skipped.clone(),
            storage: shared.storage.clone(),
            file: None,
        }
    }

    /// A reader of the file whose path `outer` is.
    fn reader(&self, outer: &Item, start: Start) -> Result<Box<dyn FileReader>, ExecError> {
        let file = Opened::new(&self.storage, path_of(self.op, outer)?);
        let reader = file.and_then(|file| self.opener.open(file, start));
        reader.map_err(|error| error.into_exec(self.op))
    }

    /// Passes on a failure, or counts it if broken records are to be skipped: a store that fails has none.
    fn settle(&self, error: ExecError, outer: &Item) -> Result<(), ExecError> {
        match self.on_error {
            OnError::Skip if error.kind() == ErrorKind::Data => {
                self.skipped.record(&error);
                Ok(())
            }
            OnError::Raise | OnError::Skip => {
                token::abandon(&outer.marks);
                Err(error.of_element())
            }
        }
    }
}

impl OneFile {
    fn next(&mut self) -> Result<Option<Item>, ReadError> {
        let index = self.passed;
        let record = self.reader.record();
        self.passed = index.saturating_add(1);
        Ok(record?.map(|Record { value, origin }| Item {
            value,
            marks: self.outer.marks.clone(),
            position: mix(self.outer.position, index),
            origin: Some(origin),
        }))
    }
}

impl Iterate for Read {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        loop {
            self.cancel.check(self.op)?;
            let Some(file) = &mut self.file else {
                let Some(outer) = self.input.next()? else {
                    return Ok(None);
                };
                match self.reader(&outer, Start::default()) {
                    Ok(reader) => {
                        self.file = Some(OneFile {
                            outer,
                            reader,
                            passed: 0,
                        });
                    }
                    Err(error) => self.settle(error, &outer)?,
                }
                continue;
            };
            match file.next() {
                Ok(Some(item)) => return Ok(Some(item)),
                Ok(None) => self.file = None,
                Err(error) => {
                    let goes_on = error.is_record;
                    let outer = file.outer.clone();
                    self.file.take_if(|_| !goes_on);
                    self.settle(error.into_exec(self.op), &outer)?;
                }
            }
        }
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.file = None;
        self.input.restart()
    }

    fn further(&self) -> Further {
        self.input.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin(self.op)?;
        state.flag(self.file.is_some())?;
        if let Some(file) = &self.file {
            state.item(&file.outer)?;
            state.number(file.reader.place())?;
            state.number(file.passed)?;
        }
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin(self.op)?;
        if state.flag()? {
            let (outer, place) = (state.item()?, state.number()?);
            let passed = state.number()?;
            let reader = self.reader(&outer, Start { place, passed })?;
            self.file = Some(OneFile {
                outer,
                reader,
                passed,
            });
        }
        self.input.restore(state)
    }
}
