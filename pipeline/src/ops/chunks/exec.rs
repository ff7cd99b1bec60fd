//! The execution of `chunks`. Yields the paths of chunks in order, and waits for chunks that do not exist
//! yet.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use super::definition;
use super::layout::{Ending, chunk_path, ending};
use crate::exec::cancel::Cancel;
use crate::exec::cursor::Cursor;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::item::Item;
use crate::exec::iterate::{Further, Iterate};
use crate::exec::program::{OpenError, Prepared, Preparing, prepared};
use crate::exec::room::{Room, named};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::value::{Tensor, Value};
use crate::graph::codec::decode_params;

/// The time between two looks for a chunk that does not exist yet.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The entry of `chunks` in the table of operations.
pub(crate) const ROOM: Room = Room {
    names: &[&["chunks"]],
    decode: decode_params::<definition::Chunks>,
    named: Some(named::<definition::Chunks>),
    prepare,
};

fn prepare(preparing: &Preparing<'_>) -> Result<Box<dyn Prepared>, OpenError> {
    let operation = preparing.of::<definition::Chunks>()?.clone();
    prepared(move |opening| {
        let shared = opening.shared;
        let permitted = shared.storage.permits(&operation.path);
        permitted.map_err(|error| ExecError::new(error.kind(), "chunks", error.to_string()))?;
        Ok(Box::new(Chunks {
            path: operation.path.clone(),
            // The number of chunks limits the walk once the save has ended.
            cursor: opening.cursor(operation.count.unwrap_or(u64::MAX)),
            wait: operation.wait_ms.map(Duration::from_millis),
            total: operation.count.filter(|_| operation.wait_ms.is_none()),
            cancel: shared.cancel.clone(),
        }))
    })
}

struct Chunks {
    path: String,
    cursor: Cursor,
    /// The limit of the wait for one chunk.
    wait: Option<Duration>,
    /// The number of chunks, once the dataset is saved.
    total: Option<u64>,
    cancel: Cancel,
}

impl Chunks {
    /// Blocks until chunk `number` exists. Returns `false` if the saved dataset has fewer chunks.
    fn wait(&mut self, number: u64, chunk: &Path) -> Result<bool, ExecError> {
        let begun = Instant::now();
        loop {
            if let Some(total) = self.total {
                return Ok(number < total);
            }
            if chunk.is_file() {
                return Ok(true);
            }
            match ending(&self.path).map_err(|error| self.unread(&error))? {
                Some(Ending::Done(total)) => self.total = Some(total),
                Some(Ending::Failed(message)) => {
                    let message = format!("the save of {} failed: {message}", self.path);
                    return Err(ExecError::new(ErrorKind::Data, "chunks", message));
                }
                None => {
                    self.check_time(number, begun)?;
                    self.cancel.pause("chunks", LOOK_EVERY)?;
                }
            }
        }
    }

    fn check_time(&self, number: u64, begun: Instant) -> Result<(), ExecError> {
        let limit = self.wait.unwrap_or_default();
        if begun.elapsed() < limit {
            return Ok(());
        }
        let message = format!(
            "expected chunk {number} of {} within {limit:?}, found none: check that the save runs, or allow a longer wait",
            self.path
        );
        Err(ExecError::new(ErrorKind::Peer, "chunks", message))
    }

    fn unread(&self, error: &io::Error) -> ExecError {
        let message = format!("cannot read the state of the save in {}: {error}", self.path);
        ExecError::new(ErrorKind::Resource, "chunks", message)
    }
}

impl Iterate for Chunks {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        let Some(number) = self.cursor.next()? else {
            return Ok(None);
        };
        let chunk = chunk_path(&self.path, number);
        if !self.wait(number, &chunk)? {
            // The end of the pass must be found again at the next call.
            self.cursor.end();
            return Ok(None);
        }
        let marks = self.cursor.marks(number, self.cursor.is_last());
        let value = Value::from_iter([Tensor::string(chunk.to_string_lossy())]);
        Ok(Some(Item {
            marks,
            ..Item::new(value, number)
        }))
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.cursor.restart()
    }

    fn further(&self) -> Further {
        match self.total {
            Some(0) => Further::Nothing,
            Some(_) | None => self.cursor.further(),
        }
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("chunks")?;
        self.cursor.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("chunks")?;
        self.cursor.restore(state)
    }
}
