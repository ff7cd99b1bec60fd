//! The execution of `write_chunk`. Writes the input to a chunk, unless the chunk exists, and yields the size
//! of the chunk.

use std::io;
use std::path::PathBuf;

use millstream_element::ElementSpec;

use super::definition;
use crate::exec::cancel::Cancel;
use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::item::Item;
use crate::exec::item_bytes::encoded;
use crate::exec::iterate::{Further, Input, Iterate};
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::exec::value::{Tensor, Value};
use crate::graph::Packing;
use crate::ops::chunks::{chunk_path, uncommitted};
use crate::saved::{ChunkSize, ChunkWriter, chunk_size};

pub(crate) struct WriteChunk {
    /// The path of the chunk.
    path: PathBuf,
    /// The directory of temporary files.
    uncommitted: PathBuf,
    spec: ElementSpec,
    packing: Packing,
    cancel: Cancel,
    input: Input,
    /// Whether this pass has yielded its element or its error.
    has_ended: bool,
}

impl WriteChunk {
    pub(super) fn new(
        operation: &definition::WriteChunk,
        spec: ElementSpec,
        input: Input,
        shared: &Shared,
    ) -> WriteChunk {
        WriteChunk {
            path: chunk_path(&operation.path, shared.split.unwrap_or(0)),
            uncommitted: uncommitted(&operation.path),
            spec,
            packing: operation.packing,
            cancel: shared.cancel.clone(),
            input,
            has_ended: false,
        }
    }

    /// Returns the size of the chunk, which is written if it does not exist.
    fn committed(&mut self) -> Result<ChunkSize, ExecError> {
        match chunk_size(&self.path) {
            Ok(Some(size)) => Ok(size),
            Ok(None) => self.write(),
            Err(error) => Err(self.failed("read", &error)),
        }
    }

    fn write(&mut self) -> Result<ChunkSize, ExecError> {
        let begun = ChunkWriter::begin(&self.path, &self.uncommitted, &self.spec, self.packing);
        let mut chunk = begun.map_err(|error| self.failed("begin", &error))?;
        while let Some(item) = self.input.next()? {
            self.cancel.check("write_chunk")?;
            let (position, origin) = (item.position, item.origin.clone());
            let bytes = encoded(item).map_err(|error| error.at(origin.as_ref()).at_position(position))?;
            chunk
                .write(&bytes)
                .map_err(|error| self.failed("write", &error))?;
        }
        chunk.commit().map_err(|error| self.failed("commit", &error))
    }

    /// Returns the error of a worker that could not `what` the chunk.
    fn failed(&self, what: &str, error: &io::Error) -> ExecError {
        const OF_DATA: [io::ErrorKind; 2] = [io::ErrorKind::InvalidData, io::ErrorKind::UnexpectedEof];
        let (kind, advice) = if error.kind() == io::ErrorKind::NotFound {
            let advice = ": the directory of the saved dataset must be on storage that all workers share";
            (ErrorKind::Caller, advice)
        } else if OF_DATA.contains(&error.kind()) {
            let advice = ": remove the file, and the next save writes it again";
            (ErrorKind::Data, advice)
        } else {
            (ErrorKind::Resource, "")
        };
        let reason = if error.kind() == io::ErrorKind::UnexpectedEof {
            "the file is truncated".to_owned()
        } else {
            error.to_string()
        };
        let path = self.path.display();
        let message = format!("cannot {what} the chunk {path}: {reason}{advice}");
        ExecError::new(kind, "write_chunk", message)
    }
}

impl Iterate for WriteChunk {
    fn next(&mut self) -> Result<Option<Item>, ExecError> {
        if std::mem::replace(&mut self.has_ended, true) {
            return Ok(None);
        }
        let ChunkSize { elements, bytes } = self.committed()?;
        let sizes = [elements, bytes].map(|size| Tensor::i64(size.cast_signed()));
        Ok(Some(Item::new(Value::from_iter(sizes), 0)))
    }

    fn restart(&mut self) -> Result<(), ExecError> {
        self.has_ended = false;
        self.input.restart()
    }

    fn further(&self) -> Further {
        // Every pass yields the size of the chunk.
        Further::Open
    }

    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError> {
        state.begin("write_chunk")?;
        state.flag(self.has_ended)?;
        self.input.save(state)
    }

    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError> {
        state.begin("write_chunk")?;
        self.has_ended = state.flag()?;
        self.input.restore(state)
    }
}
