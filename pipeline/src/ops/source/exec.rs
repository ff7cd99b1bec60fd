//! The execution of `source`, which opens a registered source for a whole pass or for each split. After
//! a failed read, the dataset's error policy decides: a retry opens a new source and skips the earlier
//! elements, or the element is skipped.

use std::sync::Arc;

use millstream_element::{ElementSpec, PackWriter};

use super::definition;
use crate::exec::call::guarded;
use crate::exec::cancel::Cancel;
use crate::exec::context::Shared;
use crate::exec::cursor::Cursor;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::faults::Faults;
use crate::exec::functions::SourceFactory;
use crate::exec::item::Item;
use crate::exec::iterate::{Filled, Further, Iterate, Stop};
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::random::Seeds;
use crate::exec::room::Room;
use crate::exec::site::Site;
use crate::exec::source::Source;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::yielded::check;
use crate::graph::Cardinality;
use crate::graph::Params;
use crate::graph::codec::decode_params;

/// The entry of `source` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["source"]],
    decode: decode_params::<definition::RegisteredSource>,
    named: None,
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = preparing.of::<definition::RegisteredSource>()?.clone();
    let factory = preparing.means.source_factory(&operation.name)?;
    let signature = operation.signature(preparing.means.functions)?;
    prepared(move |opening| {
        let count = match signature.cardinality {
            Cardinality::Finite(count) => count,
            Cardinality::Infinite | Cardinality::Unknown => u64::MAX,
        };
        Ok(Box::new(Registered::new(
            (operation.name.clone(), operation.params.clone()),
            Arc::clone(&factory),
            signature.spec.clone(),
            opening.cursor(count),
            opening.shared.seeds(opening.drawn(), None),
            &opening.own_shared(),
        )))
    })
}

pub(crate) struct Registered {
    name: String,
    params: Params,
    factory: Arc<dyn SourceFactory>,
    spec: ElementSpec,
    cursor: Cursor,
    seeds: Seeds,
    cancel: Cancel,
    faults: Faults,
    pass: u64,
    open: Option<Box<dyn Source>>,
    /// Whether a range of positions is being read. The source itself may be closed.
    has_range: bool,
    /// The first position of the range.
    start: u64,
    /// The position of the next element.
    position: u64,
    end: u64,
}

impl Registered {
    pub(crate) fn new(
        (name, params): (String, Params),
        factory: Arc<dyn SourceFactory>,
        spec: ElementSpec,
        cursor: Cursor,
        seeds: Seeds,
        shared: &Shared,
    ) -> Registered {
        Registered {
            name,
            params,
            factory,
            spec,
            cursor,
            seeds,
            cancel: shared.cancel.clone(),
            faults: shared.faults(),
            pass: 0,
            open: None,
            has_range: false,
            start: 0,
            position: 0,
            end: 0,
        }
    }

    /// Starts the next range unless a range is being read. Returns `false` at the end of the pass.
    fn ensure_range(&mut self) -> Result<bool, ExecError> {
        if !self.has_range
            && let Some(range) = self.cursor.next_range()?
        {
            (self.start, self.position, self.end) = (range.start, range.start, range.end);
            self.has_range = true;
        }
        Ok(self.has_range)
    }

    /// Opens the source at the current position of the range, unless the source is open.
    fn ensure_open(&mut self) -> Result<(), ExecError> {
        if self.open.is_some() {
            return Ok(());
        }
        let site = Site::new(&self.seeds, self.pass, self.start, &self.cancel);
        let passed = self.position - self.start;
        self.open = Some(guarded(&self.name, || {
            let mut source = self.factory.open_at(&self.params, self.start..self.end, &site)?;
            if passed > 0 {
                source.advance(passed)?;
            }
            Ok(source)
        })?);
        Ok(())
    }

    /// Closes the source and ends the range.
    fn close(&mut self) {
        (self.open, self.has_range) = (None, false);
    }

    /// Moves past the elements that failed in earlier attempts. A source that is opened after them does not
    /// compute them.
    fn pass_over_excluded(&mut self) {
        while self.position < self.end && self.faults.excludes(|| self.name.clone(), self.position) {
            self.position = self.position.saturating_add(1);
            self.open = None;
        }
    }

    /// Returns the next element of the range, or `None` at the end of the range.
    fn step(&mut self) -> Result<Option<Item>, ExecError> {
        self.pass_over_excluded();
        let position = self.position;
        if position == self.end {
            return Ok(None);
        }
        self.ensure_open()?;
        let next = match &mut self.open {
            Some(source) => guarded(&self.name, || source.next())?,
            None => None,
        };
        let Some(value) = next else {
            return Ok(None);
        };
        // The source has already advanced past the element, so an error here concerns only this
        // element.
        check(&self.name, &self.spec, &value).map_err(|error| error.at_position(position).of_element())?;
        self.position = position.saturating_add(1);
        let marks = self.cursor.marks(position, self.position == self.end);
        Ok(Some(Item::marked(value, marks, position)))
    }

    /// Returns the next element, and retries failures as the error policy says.
    fn tried(&mut self) -> Result<Option<Item>, ExecError> {
        if !self.faults.retries() {
            return self.step();
        }
        let faults = self.faults.clone();
        faults.tried(|is_last| {
            let outcome = self.step();
            if outcome.is_err() && !is_last {
                self.open = None;
            }
            outcome
        })
    }

    /// Skips the failed part if the error policy allows skipping. Skips one element if the source can
    /// continue after `error`, or else the rest of the range.
    fn leave_out(&mut self, error: ExecError) -> Result<(), ExecError> {
        let goes_on = error.is_passable();
        let position = self.position;
        if goes_on {
            self.position = position.saturating_add(1);
        }
        if !self.faults.passes_over(&error.clone().at_position(position)) {
            return Err(match goes_on {
                true => self.faults.identified(error.at_position(position), position),
                false => error,
            });
        }
        if !goes_on {
            self.close();
        }
        Ok(())
    }

    /// Lets the source write up to `limit` elements of the current range directly into `pack`. Returns
    /// `None` if the source does not support direct writes.
    fn fill(
        &mut self,
        pack: &mut PackWriter,
        sequence: u64,
        limit: usize,
    ) -> Result<Option<Filled>, ExecError> {
        const ENDED: Filled = Filled {
            count: 0,
            stop: Stop::End,
        };
        let has_range = self.ensure_range()?;
        let left = usize::try_from(self.end.saturating_sub(self.position)).unwrap_or(usize::MAX);
        if !has_range || left == 0 {
            self.close();
            return Ok(Some(ENDED));
        }
        let wanted = limit.min(left);
        self.ensure_open()?;
        let filled = match &mut self.open {
            Some(source) => guarded(&self.name, || {
                source.fill_pack(pack, sequence, wanted).transpose()
            })?,
            None => None,
        };
        let Some(mut filled) = filled else {
            return Ok(None);
        };
        let stands_still = filled.count == 0 && wanted > 0 && filled.stop == Stop::Limit;
        if stands_still || filled.count > wanted {
            let message = format!(
                "expected up to {wanted} elements from a source that has not ended, found {}",
                filled.count
            );
            return Err(ExecError::new(ErrorKind::UserFunction, &*self.name, message));
        }
        self.position = self.position.saturating_add(filled.count as u64);
        if self.position == self.end && filled.stop == Stop::Limit {
            filled.stop = Stop::End;
        }
        if filled.stop == Stop::End {
            self.close();
        }
        Ok(Some(filled))
    }
}

impl Iterate for Registered {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        while self.ensure_range()? {
            match self.tried() {
                Ok(Some(item)) => return Ok(Some(item)),
                Ok(None) => self.close(),
                Err(error) => {
                    self.leave_out(error)?;
                    self.cancel.check(&self.name)?;
                }
            }
        }
        Ok(None)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.close();
        self.pass = self.pass.wrapping_add(1);
        self.faults.next_pass();
        self.cursor.restart()
    }

    fn further(&self) -> Further {
        self.cursor.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("source")?;
        state.number(self.pass)?;
        self.cursor.save(state)?;
        state.flag(self.has_range)?;
        state.number(self.position)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("source")?;
        self.pass = state.number()?;
        self.cursor.restore(state)?;
        let has_range = state.flag()?;
        let position = state.number()?;
        if has_range {
            // The saved cursor has already handed out the range. The source skips the elements that
            // were yielded.
            self.cursor.rewind();
            self.ensure_range()?;
            self.position = position.clamp(self.start, self.end);
            let faults = self.faults.clone();
            faults.tried(|_| self.ensure_open())?;
        }
        Ok(())
    }

    fn fill_pack(
        &mut self,
        pack: &mut PackWriter,
        sequence: u64,
        limit: usize,
    ) -> Option<Result<Filled, ExecError>> {
        // Splits need marks on every element, and an element that fails in a pack cannot be retried or
        // skipped.
        if self.cursor.is_fed() || self.faults.may_leave_out() || self.faults.retries() {
            return None;
        }
        self.fill(pack, sequence, limit).transpose()
    }
}
