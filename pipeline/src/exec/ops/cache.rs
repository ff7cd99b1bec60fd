//! `cache` in memory: the elements of the first pass that is read to its end, in every pass after it.

use crate::exec::call;
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::token::{self, Marks};

pub(crate) struct Cache {
    bytes_max: u64,
    input: Input,
    shared: Shared,
    items: Vec<Item>,
    held_bytes: u64,
    /// Whether a pass has been read to its end.
    is_whole: bool,
    /// Elements yielded of a pass from memory.
    yielded: usize,
}

impl Cache {
    pub(crate) fn new(bytes_max: u64, input: Input, shared: &Shared) -> Cache {
        Cache {
            bytes_max,
            input,
            shared: shared.clone(),
            items: Vec::new(),
            held_bytes: 0,
            is_whole: false,
            yielded: 0,
        }
    }

    /// Keeps `item`, but not the splits it stands for: those are of this pass.
    fn keep(&mut self, item: &Item) -> Result<(), ExecError> {
        let kept = Item {
            marks: Marks::new(),
            ..item.clone()
        };
        self.held_bytes = self.held_bytes.saturating_add(kept.held_bytes() as u64);
        if self.held_bytes > self.bytes_max {
            token::abandon(&item.marks);
            let message = format!(
                "{} elements fill the {} bytes that it may hold: cache less, in a directory, or raise the limit",
                self.items.len(),
                self.bytes_max
            );
            return Err(ExecError::new(ErrorKind::Resource, "cache", message));
        }
        self.items.push(kept);
        Ok(())
    }
}

impl Iterate for Cache {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        if self.is_whole {
            let item = self.items.get(self.yielded).cloned();
            self.yielded += usize::from(item.is_some());
            return Ok(item);
        }
        self.shared.cancel.check("cache")?;
        match self.input.next()? {
            Some(item) => {
                let item = call::settled(item)?;
                self.keep(&item)?;
                Ok(Some(item))
            }
            None => {
                self.is_whole = true;
                self.yielded = self.items.len();
                Ok(None)
            }
        }
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.yielded = 0;
        if self.is_whole {
            return Ok(());
        }
        if !self.items.is_empty() {
            tracing::warn!(
                elements = self.items.len(),
                "a pass was not read to its end, so nothing of it is cached; put `take` below `cache`"
            );
        }
        self.items.clear();
        self.held_bytes = 0;
        self.input.restart()
    }

    fn further(&self) -> Further {
        match self.input.further() {
            // A feed that is being drained ends passes from memory too.
            Further::Nothing => Further::Nothing,
            Further::Open | Further::Behind if self.is_whole && self.items.is_empty() => Further::Nothing,
            Further::Open | Further::Behind if self.is_whole => Further::Open,
            further @ (Further::Open | Further::Behind) => further,
        }
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("cache")?;
        state.flag(self.is_whole)?;
        state.number(self.yielded as u64)?;
        state.number(self.items.len() as u64)?;
        self.items.iter().try_for_each(|item| state.item(item))?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("cache")?;
        self.is_whole = state.flag()?;
        let yielded = state.number()?;
        for _ in 0..state.number()? {
            let item = state.item()?;
            self.keep(&item)?;
        }
        self.yielded = usize::try_from(yielded)
            .unwrap_or(usize::MAX)
            .min(self.items.len());
        self.input.restore(state)
    }
}
