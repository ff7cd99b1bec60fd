//! The execution of `files`, which yields the paths of a listing. The dispatcher makes the listing when
//! it plans the iteration. A task that reads splits needs no listing, because each split carries its
//! path.

use std::sync::Arc;

use super::definition;
use crate::exec::cursor::Cursor;
use crate::exec::cursor::Cut;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::program::FilesOf;
use crate::exec::program::{OpenError, Opening, Prepared, Preparing};
use crate::exec::random::Seeds;
use crate::exec::room::{Room, named};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::value::{Tensor, Value};
use crate::graph::FilePart;
use crate::graph::codec::decode_params;
use crate::plan::{SourcePlan, listed};

/// The entry of `files` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["files"]],
    decode: decode_params::<definition::Files>,
    named: Some(named::<definition::Files>),
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = preparing.of::<definition::Files>()?;
    let listing = match preparing.files {
        FilesOf::Splits => None,
        FilesOf::Disk | FilesOf::Plan(_) => Some(listing(operation, preparing)?),
    };
    Ok(Box::new(Listing {
        operation: operation.clone(),
        listing,
    }))
}

/// The prepared operation `files`.
struct Listing {
    operation: definition::Files,
    /// The listed paths. `None` if the splits carry the paths.
    listing: Option<Arc<[String]>>,
}

impl Prepared for Listing {
    fn open(&self, opening: &Opening<'_>) -> Result<Input, ExecError> {
        let Some(listing) = &self.listing else {
            return Ok(Box::new(Files::dealt(opening.cursor_in(u64::MAX, Cut::Single))));
        };
        let cursor = opening.cursor_in(listing.len() as u64, Cut::Single);
        let seeds = || opening.shared.seeds(opening.drawn(), self.operation.seed);
        let shuffle = self.operation.shuffle.then(seeds);
        Ok(Box::new(Files::new(Arc::clone(listing), shuffle, cursor)))
    }

    fn listings(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(
            self.listing
                .iter()
                .flat_map(|paths| paths.iter())
                .map(String::as_str),
        )
    }
}

/// Returns the paths of the plan, or lists the files in storage if no plan has them.
fn listing(operation: &definition::Files, preparing: &Preparing<'_>) -> Result<Arc<[String]>, OpenError> {
    let planned = match preparing.files {
        FilesOf::Splits | FilesOf::Disk => None,
        FilesOf::Plan(plan) => preparing.source.and_then(|place| plan.sources.get(place)),
    };
    let Some(SourcePlan::Listed { items }) = planned else {
        let found = listed(operation, preparing.means.storage)?;
        return Ok(found.into_iter().map(|file| file.path).collect());
    };
    let paths: Result<Vec<String>, _> = items
        .iter()
        .map(|item| String::from_utf8(item.payload.clone()))
        .collect();
    let refused = |_| {
        let message = "expected paths in UTF-8 in the plan, found a path that is not";
        ExecError::new(ErrorKind::Peer, "files", message)
    };
    Ok(paths.map_err(refused)?.into())
}

pub(crate) struct Files {
    listing: Arc<[String]>,
    /// The seeds for the order of every pass. `None` keeps the order of the listing.
    shuffle: Option<Seeds>,
    /// The order of this pass, as positions in the listing. Empty if the pass keeps the order of the
    /// listing.
    order: Vec<u32>,
    cursor: Cursor,
}

impl Files {
    /// Makes the iterator over the paths of `listing`, shuffled with the seeds `shuffle` if given.
    pub(crate) fn new(listing: Arc<[String]>, shuffle: Option<Seeds>, cursor: Cursor) -> Files {
        let mut files = Files {
            listing,
            shuffle,
            order: Vec::new(),
            cursor,
        };
        files.reorder();
        files
    }

    /// Makes the iterator over paths that arrive with the splits. The dispatcher decides which files
    /// exist, and their order.
    pub(crate) fn dealt(cursor: Cursor) -> Files {
        Files::new(Arc::new([]), None, cursor)
    }

    fn reorder(&mut self) {
        self.order.clear();
        if let Some(seeds) = &self.shuffle {
            // The listing is limited to 2^20 files, so the positions fit.
            self.order.extend(0..self.listing.len() as u32);
            seeds.draws(self.cursor.pass()).shuffle(&mut self.order);
        }
    }

    fn path(&self, position: u64) -> Option<(u64, String)> {
        let at = usize::try_from(position).ok()?;
        let at = if self.order.is_empty() {
            at
        } else {
            *self.order.get(at)? as usize
        };
        Some((at as u64, self.listing.get(at)?.clone()))
    }
}

impl Iterate for Files {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        let Some(position) = self.cursor.next()? else {
            return Ok(None);
        };
        let marks = self.cursor.marks(position, self.cursor.is_last());
        let missing = || {
            ExecError::new(
                ErrorKind::Peer,
                "files",
                "expected a file path in the split, found none",
            )
        };
        let (position, path) = match self.cursor.payload() {
            None => self.path(position),
            Some(payload) => dealt_path(payload).map(|path| (position, path)),
        }
        .ok_or_else(missing)?;
        Ok(Some(Item::marked(
            Value::from_buf([Tensor::string(path)]),
            marks,
            position,
        )))
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.cursor.restart()?;
        self.reorder();
        Ok(())
    }

    fn further(&self) -> Further {
        self.cursor.further()
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("files")?;
        self.cursor.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("files")?;
        self.cursor.restore(state)?;
        self.reorder();
        Ok(())
    }
}

/// Returns the path of a file, or of a part of a file, from a split's payload. Returns `None` if the
/// payload is invalid.
fn dealt_path(payload: &[u8]) -> Option<String> {
    let path = String::from_utf8(payload.to_vec()).ok()?;
    let file = FilePart::of(&path).path;
    (!file.is_empty() && !file.contains('\0')).then_some(path)
}
