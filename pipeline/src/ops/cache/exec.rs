//! The execution of `cache` in memory, which keeps the first pass that is read to its end and repeats
//! its elements in every later pass. Executions that share a [`Caches`](crate::exec::Caches) share the
//! kept elements.

use std::sync::Arc;

use super::definition;
use crate::exec::caches::CachePlace;
use crate::exec::call;
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::identity::fingerprint;
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::program::{OpenError, Opening, Prepared, Preparing};
use crate::exec::room::{Room, named};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::token::{self, Marks};
use crate::graph::codec::decode_params;

/// The entry of `cache` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["cache"]],
    decode: decode_params::<definition::Cache>,
    named: Some(named::<definition::Cache>),
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = preparing.of::<definition::Cache>()?;
    if operation.path.is_some() && !cfg!(feature = "saved") {
        let (op, feature) = ("cache", "saved");
        return Err(OpenError::Feature { op, feature });
    }
    let origin = preparing.graph.origin(preparing.node);
    let bytes = preparing.graph.as_defined().below(origin as usize);
    // A graph that is too large to encode is refused earlier, so an encoding error cannot occur here.
    let below = bytes.map(|bytes| fingerprint(&bytes)).unwrap_or_default();
    Ok(Box::new(Caching {
        operation: operation.clone(),
        place: format!("{below}/{origin}"),
    }))
}

struct Caching {
    operation: definition::Cache,
    /// The key of the cache: a fingerprint of the operations below it, and its node number.
    place: String,
}

impl Prepared for Caching {
    fn open(&self, opening: &Opening<'_>) -> Result<Input, ExecError> {
        let input = opening.input()?;
        let shared = &opening.own_shared();
        if let Some(path) = &self.operation.path {
            return in_files(path, opening, input, shared);
        }
        let place = shared
            .caches
            .as_ref()
            .map(|caches| caches.place(self.place.clone()));
        Ok(Box::new(Cache::new(
            self.operation.bytes_max,
            place,
            input,
            shared,
        )))
    }
}

#[cfg(feature = "saved")]
fn in_files(path: &str, opening: &Opening<'_>, input: Input, shared: &Shared) -> Result<Input, ExecError> {
    use std::path::Path;

    use crate::exec::keeping::{Keeping, permitted};
    use crate::graph::Packing;

    permitted("cache", path, shared)?;
    let spec = opening.input_spec()?.clone();
    let keeping = Keeping::new("cache", Path::new(path), spec, Packing::None);
    Ok(Box::new(super::files::FileCache::new(keeping, input)))
}

#[cfg(not(feature = "saved"))]
fn in_files(_: &str, _: &Opening<'_>, _: Input, _: &Shared) -> Result<Input, ExecError> {
    Err(crate::exec::program::unprepared("cache"))
}

pub(crate) struct Cache {
    bytes_max: u64,
    /// The place where other executions find a complete pass. `None` keeps the pass for this execution
    /// only.
    place: Option<CachePlace>,
    input: Input,
    shared: Shared,
    /// The elements of the current pass, which has not been read to its end yet.
    items: Vec<Item>,
    held_bytes: u64,
    /// The elements of a pass that was read to its end.
    whole: Option<Arc<[Item]>>,
    /// The number of elements that the current pass has yielded from memory.
    yielded: usize,
}

impl Cache {
    pub(crate) fn new(bytes_max: u64, place: Option<CachePlace>, input: Input, shared: &Shared) -> Cache {
        Cache {
            bytes_max,
            whole: place.as_ref().and_then(CachePlace::find),
            place,
            input,
            shared: shared.clone(),
            items: Vec::new(),
            held_bytes: 0,
            yielded: 0,
        }
    }

    /// Declares the collected elements to be a whole pass, and shares the pass with other executions.
    fn complete(&mut self) {
        let items: Arc<[Item]> = std::mem::take(&mut self.items).into();
        if let Some(place) = &self.place {
            place.keep(&items);
        }
        self.whole = Some(items);
    }

    /// Keeps `item` without its split marks, because the marks belong to the current pass.
    fn keep(&mut self, item: &Item) -> Result<(), ExecError> {
        let kept = Item {
            marks: Marks::new(),
            ..item.clone()
        };
        self.held_bytes = self.held_bytes.saturating_add(kept.held_bytes() as u64);
        if self.held_bytes > self.bytes_max {
            token::abandon(&item.marks);
            let message = format!(
                "{} elements exceed the limit of {} bytes: cache fewer elements, cache in a directory, or raise the limit",
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
        if let Some(items) = &self.whole {
            let item = items.get(self.yielded).cloned();
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
                self.yielded = self.items.len();
                self.complete();
                Ok(None)
            }
        }
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.yielded = 0;
        if self.whole.is_some() {
            return Ok(());
        }
        if !self.items.is_empty() {
            tracing::warn!(
                elements = self.items.len(),
                "the pass was not read to its end, so its elements are not cached; put `take` below `cache`"
            );
        }
        self.items.clear();
        self.held_bytes = 0;
        self.input.restart()
    }

    fn further(&self) -> Further {
        match (self.input.further(), &self.whole) {
            // A feed that ends early, for a graceful shutdown, ends the passes from memory too.
            (Further::Nothing, _) => Further::Nothing,
            (Further::Open | Further::Behind | Further::Shared, Some(items)) if items.is_empty() => {
                Further::Nothing
            }
            (Further::Open | Further::Behind | Further::Shared, Some(_)) => Further::Open,
            (further @ (Further::Open | Further::Behind | Further::Shared), None) => further,
        }
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("cache")?;
        let items = self.whole.as_deref().unwrap_or(&self.items);
        state.flag(self.whole.is_some())?;
        state.number(self.yielded as u64)?;
        state.number(items.len() as u64)?;
        items.iter().try_for_each(|item| state.item(item))?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("cache")?;
        let is_whole = state.flag()?;
        let yielded = state.number()?;
        self.whole = None;
        for _ in 0..state.number()? {
            let item = state.item()?;
            self.keep(&item)?;
        }
        self.yielded = usize::try_from(yielded)
            .unwrap_or(usize::MAX)
            .min(self.items.len());
        if is_whole {
            self.complete();
        }
        self.input.restore(state)
    }
}
