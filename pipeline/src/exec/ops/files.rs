//! `files`: the paths of a listing that was made when the iteration was planned.

use std::sync::Arc;

use crate::exec::cursor::Cursor;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::item::Item;
use crate::exec::iterate::Iterate;
use crate::exec::random::file_order;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::value::{Tensor, Value};

pub(crate) struct Files {
    listing: Arc<[String]>,
    shuffle: Option<FileShuffle>,
    /// The order of this pass: positions in the listing. Empty when it is the listing's.
    order: Vec<u32>,
    cursor: Cursor,
}

/// The order of files when they are shuffled and nothing is split.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileShuffle {
    pub(crate) seed: u64,
    /// Whether the listing is already in the order of pass 0.
    pub(crate) listed_in_order: bool,
}

impl Files {
    pub(crate) fn new(listing: Arc<[String]>, shuffle: Option<FileShuffle>, cursor: Cursor) -> Files {
        let mut files = Files {
            listing,
            shuffle,
            order: Vec::new(),
            cursor,
        };
        files.reorder();
        files
    }

    fn reorder(&mut self) {
        self.order.clear();
        // In splits the dispatcher decides the order.
        let Some(shuffle) = self.shuffle.filter(|_| !self.cursor.is_fed()) else {
            return;
        };
        if self.cursor.pass() == 0 && shuffle.listed_in_order {
            return;
        }
        // A listing has at most 2^20 files.
        self.order.extend(0..self.listing.len() as u32);
        file_order(shuffle.seed, self.cursor.pass(), &mut self.order);
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
        let missing = || ExecError::new(ErrorKind::Peer, "files", "a split names no file");
        let (position, path) = match self.cursor.payload() {
            None => self.path(position).ok_or_else(missing)?,
            Some(payload) => (
                position,
                String::from_utf8(payload.to_vec()).map_err(|_| missing())?,
            ),
        };
        Ok(Some(Item {
            value: Value::from_buf([Tensor::string(path)]),
            marks,
            position,
            origin: None,
        }))
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.cursor.restart();
        self.reorder();
        Ok(())
    }

    fn exhausted(&self) -> bool {
        self.cursor.exhausted()
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
