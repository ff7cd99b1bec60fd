//! The operation that reads files: opens the ones whose paths come in, one after the other, and yields what
//! their readers do. Broken records are an error, or counted and left out, as the format's parameters or the
//! dataset say.

use crate::exec::budget::{Budget, Charge};
use crate::exec::cancel::Cancel;
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::faults::Faults;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::random::mix;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::graph::{FilePart, Format, OnError};
use crate::storage::Storage;

use super::path::path_of;
use super::reader::{FileReader, OpenFile, ReadError, Record, Start};

pub(crate) struct Read {
    op: &'static str,
    is_divisible: bool,
    opener: Box<dyn OpenFile>,
    input: Input,
    cancel: Cancel,
    faults: Faults,
    storage: Storage,
    budget: Budget,
    file: Option<Box<OneFile>>,
}

/// A file being read.
struct OneFile {
    /// The element whose path it is.
    outer: Item,
    reader: Box<dyn FileReader>,
    /// Counts what the reader holds.
    charge: Charge,
    /// Records passed, yielded or not.
    passed: u64,
}

impl Read {
    pub(crate) fn new(format: &Format, opener: Box<dyn OpenFile>, input: Input, shared: &Shared) -> Read {
        Read {
            op: format.op_name(),
            is_divisible: format.is_divisible(),
            opener,
            input,
            cancel: shared.cancel.clone(),
            faults: shared.faults().skipping_if(format.on_error() == OnError::Skip),
            storage: shared.storage.clone(),
            budget: shared.budget.clone(),
            file: None,
        }
    }

    /// A reader of the file whose path `outer` is, or the part of one.
    fn reader(&self, outer: &Item, place: u64, passed: u64) -> Result<Box<dyn FileReader>, ExecError> {
        self.faults.tried(|_| self.opened(outer, place, passed))
    }

    /// Opens the file with one attempt.
    fn opened(&self, outer: &Item, place: u64, passed: u64) -> Result<Box<dyn FileReader>, ExecError> {
        let FilePart { path, range } = FilePart::of(path_of(self.op, outer)?);
        if range.is_some() && !self.is_divisible {
            let message = "was dealt a part of a file, and can only read whole ones";
            return Err(ExecError::new(ErrorKind::Peer, self.op, message));
        }
        let start = Start {
            place,
            passed,
            begin: range.as_ref().map_or(0, |range| range.start),
            end: range.map(|range| range.end),
        };
        let file = self.opener.opened(&self.storage, path);
        let reader = file.and_then(|file| self.opener.open(file, start));
        reader.map_err(|error| error.into_exec(self.op))
    }

    /// Handles `error` at the next record of `file`. If storage failed, a new reader starts there, as many
    /// times as the dataset allows.
    #[cold]
    fn again(&self, file: &mut OneFile, error: ReadError, at: Option<At>) -> Result<Option<Item>, Failed> {
        let mut goes_on = error.is_record;
        let Some(at) = at.filter(|_| error.kind != ErrorKind::Data) else {
            return Err(Failed {
                goes_on,
                error: error.into_exec(self.op),
            });
        };
        let mut first = Some(error.into_exec(self.op));
        let again = self.faults.tried(|_| {
            if let Some(error) = first.take() {
                return Err(error);
            }
            goes_on = false;
            file.reader = self.opened(&file.outer, at.place, at.passed)?;
            file.passed = at.passed;
            file.record().map_err(|error| {
                goes_on = error.is_record;
                error.into_exec(self.op)
            })
        });
        match again {
            Ok(record) => Ok(record.map(|record| file.item(record))),
            Err(error) => Err(Failed { goes_on, error }),
        }
    }

    /// Opens the next file; `false` where there is none.
    fn open_next(&mut self) -> Result<bool, ExecError> {
        let Some(outer) = self.input.next()? else {
            return Ok(false);
        };
        match self.reader(&outer, 0, 0) {
            Ok(reader) => self.file = Some(Box::new(OneFile::new(outer, reader, 0, &self.budget))),
            Err(error) => self.faults.leave_out(error, &outer.marks)?,
        }
        Ok(true)
    }

    /// Handles a failure; returns an element if a retry brings one.
    #[cold]
    fn failed(
        &mut self,
        mut file: Box<OneFile>,
        error: ReadError,
        at: Option<At>,
    ) -> Result<Option<Item>, ExecError> {
        match self.again(&mut file, error, at) {
            Ok(item) => {
                self.file = item.is_some().then_some(file);
                Ok(item)
            }
            Err(Failed { error, goes_on }) => {
                let marks = file.outer.marks.clone();
                if goes_on {
                    self.file = Some(file);
                }
                self.faults.leave_out(error, &marks).map(|()| None)
            }
        }
    }
}

/// Start of a record.
struct At {
    place: u64,
    passed: u64,
}

/// Why a record cannot be read.
struct Failed {
    error: ExecError,
    /// Whether the ones behind it can be.
    goes_on: bool,
}

impl OneFile {
    fn new(outer: Item, reader: Box<dyn FileReader>, passed: u64, budget: &Budget) -> OneFile {
        OneFile {
            outer,
            charge: budget.charge(reader.held_bytes()),
            reader,
            passed,
        }
    }

    /// The next record.
    #[inline]
    fn record(&mut self) -> Result<Option<Record>, ReadError> {
        let record = self.reader.record();
        self.passed = self.passed.saturating_add(1);
        let held_bytes = self.reader.held_bytes();
        if held_bytes != self.charge.bytes() {
            self.charge.set(held_bytes);
        }
        record
    }

    /// The record that was read last, as an element.
    #[inline]
    fn item(&self, record: Record) -> Item {
        Item {
            value: record.value,
            marks: self.outer.marks.clone(),
            position: mix(self.outer.position, self.passed.wrapping_sub(1)),
            origin: Some(record.origin),
        }
    }
}

impl Iterate for Read {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        loop {
            self.cancel.check(self.op)?;
            let Some(file) = &mut self.file else {
                if self.open_next()? {
                    continue;
                }
                return Ok(None);
            };
            let at = self.faults.retries().then(|| At {
                place: file.reader.place(),
                passed: file.passed,
            });
            // An element is made in the caller's place: to move it through others costs more than to read a
            // small record.
            match file.record() {
                Ok(Some(record)) => return Ok(Some(file.item(record))),
                Ok(None) => self.file = None,
                Err(error) => {
                    let Some(file) = self.file.take() else {
                        return Err(error.into_exec(self.op));
                    };
                    match self.failed(file, error, at) {
                        Ok(None) => {}
                        found => return found,
                    }
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
            let reader = self.reader(&outer, place, passed)?;
            self.file = Some(Box::new(OneFile::new(outer, reader, passed, &self.budget)));
        }
        self.input.restore(state)
    }
}
