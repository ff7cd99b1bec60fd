//! The operation that reads files. The operation opens the files whose paths its input yields, one after the
//! other, and yields the records of their readers. A broken record is an error, or is counted and left out,
//! as the format's parameters or the dataset's policy state.

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

/// A file that is being read.
struct OneFile {
    /// The element that holds the path of the file.
    outer: Item,
    reader: Box<dyn FileReader>,
    /// The charge for the bytes that the reader holds.
    charge: Charge,
    /// The number of records passed, including records left out.
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

    /// Opens a reader of the file, or the part of a file, that `outer` names. Retries as the policy permits.
    fn reader(&self, outer: &Item, place: u64, passed: u64) -> Result<Box<dyn FileReader>, ExecError> {
        self.faults.tried(|_| self.opened(outer, place, passed))
    }

    /// Opens the file with one attempt.
    fn opened(&self, outer: &Item, place: u64, passed: u64) -> Result<Box<dyn FileReader>, ExecError> {
        let FilePart { path, range } = FilePart::of(path_of(self.op, outer)?);
        if range.is_some() && !self.is_divisible {
            let message = "expected a whole file, found a part of a file";
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

    /// Handles `error` at the next record of `file`. If storage failed, a new reader starts at this record,
    /// as many times as the dataset allows.
    #[cold]
    fn again(&self, file: &mut OneFile, error: ReadError, at: Option<At>) -> Result<Option<Item>, Failed> {
        let mut goes_on = error.is_record;
        let Some(at) = at.filter(|_| {
            !matches!(
                error.kind,
                ErrorKind::Data | ErrorKind::Value | ErrorKind::Precondition
            )
        }) else {
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

    /// Opens the next file. Returns `false` if no file is left.
    fn open_next(&mut self) -> Result<bool, ExecError> {
        let Some(outer) = self.input.next()? else {
            return Ok(false);
        };
        if self.faults.excludes(|| self.op.to_owned(), outer.position) {
            return Ok(true);
        }
        match self.reader(&outer, 0, 0) {
            Ok(reader) => self.file = Some(Box::new(OneFile::new(outer, reader, 0, &self.budget))),
            Err(error) => self
                .faults
                .leave_out_at(error, Some(outer.position), &outer.marks)?,
        }
        Ok(true)
    }

    /// Handles a failure. Returns an element if a retry succeeds.
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
                let record = file.position();
                let rest = rest_of_file(record);
                if self.faults.excludes(|| self.op.to_owned(), rest) {
                    return Ok(None);
                }
                if goes_on {
                    self.file = Some(file);
                }
                let position = if goes_on { record } else { rest };
                self.faults
                    .leave_out_at(error, Some(position), &marks)
                    .map(|()| None)
            }
        }
    }
}

/// Returns the position that stands for the record at `position` and all later records of its file.
fn rest_of_file(position: u64) -> u64 {
    mix(position, 1)
}

/// The start of a record.
struct At {
    place: u64,
    passed: u64,
}

/// The reason why a record cannot be read.
struct Failed {
    error: ExecError,
    /// Whether later records of the file can still be read.
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

    /// Returns the next record.
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

    /// Converts the record that was read last to an element.
    #[inline]
    fn item(&self, record: Record) -> Item {
        Item {
            origin: Some(record.origin),
            ..Item::marked(record.value, self.outer.marks.clone(), self.position())
        }
    }

    /// Returns the position of the record that was read last.
    #[inline]
    fn position(&self) -> u64 {
        mix(self.outer.position, self.passed.wrapping_sub(1))
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
            // The element is constructed in its final place: moving it through other functions costs more
            // than reading a small record.
            match file.record() {
                Ok(Some(record)) => {
                    if self.faults.may_exclude() {
                        let position = file.position();
                        if self.faults.excludes(|| self.op.to_owned(), position) {
                            continue;
                        }
                        if self
                            .faults
                            .excludes(|| self.op.to_owned(), rest_of_file(position))
                        {
                            self.file = None;
                            continue;
                        }
                    }
                    return Ok(Some(file.item(record)));
                }
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
        self.faults.next_pass();
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
