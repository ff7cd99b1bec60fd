//! `source`: a registered source, opened whole or at each split's positions.

use std::sync::Arc;

use millstream_element::{ElementSpec, PackWriter};

use crate::exec::call::guarded;
use crate::exec::cancel::Cancel;
use crate::exec::cursor::Cursor;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::functions::SourceFactory;
use crate::exec::item::Item;
use crate::exec::iterate::{Filled, Further, Iterate, Stop};
use crate::exec::random::Seeds;
use crate::exec::site::Site;
use crate::exec::source::Source;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::value::Value;
use crate::graph::Params;

pub(crate) struct Registered {
    name: String,
    params: Params,
    factory: Arc<dyn SourceFactory>,
    spec: ElementSpec,
    cursor: Cursor,
    seeds: Seeds,
    cancel: Cancel,
    pass: u64,
    open: Option<Box<dyn Source>>,
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
        cancel: Cancel,
    ) -> Registered {
        Registered {
            name,
            params,
            factory,
            spec,
            cursor,
            seeds,
            cancel,
            pass: 0,
            open: None,
            position: 0,
            end: 0,
        }
    }

    /// Opens what is next if nothing is open; `false` at the end of the pass.
    fn ensure_open(&mut self) -> Result<bool, ExecError> {
        if self.open.is_some() {
            return Ok(true);
        }
        let Some(range) = self.cursor.next_range()? else {
            return Ok(false);
        };
        (self.position, self.end) = (range.start, range.end);
        let site = Site::new(&self.seeds, self.pass, range.start, &self.cancel);
        self.open = Some(guarded(&self.name, || {
            self.factory.open_at(&self.params, range, &site)
        })?);
        Ok(true)
    }

    /// Lets the source write up to `limit` elements of the pass, and no more than its positions, into `pack`.
    /// `None` when it writes none itself.
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
        self.ensure_open()?;
        let left = usize::try_from(self.end.saturating_sub(self.position)).unwrap_or(usize::MAX);
        let Some(source) = self.open.as_mut().filter(|_| left > 0) else {
            self.open = None;
            return Ok(Some(ENDED));
        };
        let wanted = limit.min(left);
        let filled = guarded(&self.name, || {
            source.fill_pack(pack, sequence, wanted).transpose()
        })?;
        let Some(mut filled) = filled else {
            return Ok(None);
        };
        let stands_still = filled.count == 0 && wanted > 0 && filled.stop == Stop::Limit;
        if stands_still || filled.count > wanted {
            let message = format!(
                "was asked for {wanted} elements and wrote {}, without saying that it has ended",
                filled.count
            );
            return Err(ExecError::new(ErrorKind::UserFunction, &*self.name, message));
        }
        self.position = self.position.saturating_add(filled.count as u64);
        if self.position == self.end && filled.stop == Stop::Limit {
            filled.stop = Stop::End;
        }
        if filled.stop == Stop::End {
            self.open = None;
        }
        Ok(Some(filled))
    }
}

impl Iterate for Registered {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        while self.ensure_open()? {
            let position = self.position;
            let source = self.open.as_mut().filter(|_| position < self.end);
            let next = match source {
                Some(source) => guarded(&self.name, || source.next())?,
                None => None,
            };
            match next {
                Some(value) => {
                    check(&self.name, &self.spec, &value).map_err(|error| error.at_position(position))?;
                    self.position = position.saturating_add(1);
                    let marks = self.cursor.marks(position, self.position == self.end);
                    return Ok(Some(Item {
                        value,
                        marks,
                        position,
                        origin: None,
                    }));
                }
                None => self.open = None,
            }
        }
        Ok(None)
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.open = None;
        self.pass = self.pass.wrapping_add(1);
        self.cursor.restart()
    }

    fn further(&self) -> Further {
        self.cursor.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("source")?;
        state.number(self.pass)?;
        self.cursor.save(state)?;
        state.flag(self.open.is_some())?;
        state.number(self.position)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("source")?;
        self.pass = state.number()?;
        self.cursor.restore(state)?;
        let open = state.flag()?;
        let position = state.number()?;
        if open {
            // The saved cursor has already handed out the range; the source passes over what was yielded of it.
            self.cursor.rewind();
            self.ensure_open()?;
            if let Some(source) = &mut self.open {
                guarded(&self.name, || source.advance(position))?;
            }
            self.position = position;
        }
        Ok(())
    }

    fn fill_pack(
        &mut self,
        pack: &mut PackWriter,
        sequence: u64,
        limit: usize,
    ) -> Option<Result<Filled, ExecError>> {
        // Splits need marks on every element.
        if self.cursor.is_fed() {
            return None;
        }
        self.fill(pack, sequence, limit).transpose()
    }
}

/// Checks that a source or function yields what it said it would.
pub(crate) fn check(name: &str, spec: &ElementSpec, value: &Value) -> Result<(), ExecError> {
    let wrong = |message: String| Err(ExecError::new(ErrorKind::UserFunction, name, message));
    if value.len() != spec.components().len() {
        return wrong(format!("yielded {} components, its spec is {spec}", value.len()));
    }
    for (index, (tensor, component)) in value.iter().zip(spec.components()).enumerate() {
        if !tensor.fits(component) {
            let (dtype, dims) = (tensor.dtype(), tensor.dims());
            return wrong(format!(
                "yielded {dtype}{dims:?} as component {index}, its spec is {spec}"
            ));
        }
    }
    Ok(())
}
