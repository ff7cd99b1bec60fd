//! The shared part of operations that keep elements in files. A directory is begun, continued, finished or
//! abandoned; the module also owns the error messages for the directory.

use std::io;
use std::path::Path;

use millstream_element::ElementSpec;

use crate::exec::context::Shared;
use crate::exec::error::{ErrorKind, ExecError};
use crate::exec::item::Item;
use crate::exec::item_bytes::encoded;
use crate::exec::state::{StateError, StateReader, StateWriter};
use crate::graph::Packing;
use crate::saved::{Begun, Folder, Sink};

/// A directory of elements, as an operation uses it.
pub(crate) struct Keeping {
    op: &'static str,
    /// The path without secrets, for messages.
    path: String,
    folder: Folder,
    spec: ElementSpec,
    packing: Packing,
}

impl Keeping {
    pub(crate) fn new(op: &'static str, path: &Path, spec: ElementSpec, packing: Packing) -> Keeping {
        Keeping {
            op,
            path: path.display().to_string(),
            folder: Folder::new(path),
            spec,
            packing,
        }
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn spec(&self) -> &ElementSpec {
        &self.spec
    }

    pub(crate) fn begin(&self) -> Result<Begun, ExecError> {
        let begun = self.folder.begin(&self.spec, self.packing);
        begun.map_err(|error| self.failed("open", &error))
    }

    /// Adds `item` to a shard.
    pub(crate) fn write(&self, sink: &mut Sink, shard: u64, item: &Item) -> Result<(), ExecError> {
        let bytes = encoded(item.clone())?;
        sink.write(shard, &bytes)
            .map_err(|error| self.failed("write", &error))
    }

    pub(crate) fn finish(&self, sink: Sink) -> Result<(), ExecError> {
        sink.finish().map_err(|error| self.failed("finish", &error))
    }

    /// Discards the files of a pass that was not read to its end.
    pub(crate) fn discard(&self, sink: Sink) -> Result<(), ExecError> {
        let (op, path) = (self.op, &*self.path);
        tracing::warn!(
            op,
            path,
            "the pass was not read to its end, so its elements are discarded"
        );
        sink.discard().map_err(|error| self.failed("remove", &error))
    }

    pub(crate) fn save(&self, sink: &mut Sink, state: &mut StateWriter) -> Result<(), StateError> {
        let written = sink.flush().map_err(|error| self.failed("write", &error))?;
        state.number(written.len() as u64)?;
        for (shard, bytes, elements) in written {
            state.number(shard)?;
            state.number(bytes)?;
            state.number(elements)?;
        }
        Ok(())
    }

    /// Restores the state that [`Keeping::save`] wrote. Returns the open directory, or `None` if its files
    /// are missing, and the number of elements in the state.
    pub(crate) fn restore(&self, state: &mut StateReader<'_>) -> Result<(Option<Begun>, u64), StateError> {
        let mut written = Vec::new();
        let mut elements = 0u64;
        for _ in 0..state.number()? {
            let shard = (state.number()?, state.number()?, state.number()?);
            elements = elements.saturating_add(shard.2);
            written.push(shard);
        }
        let begun = self.folder.resume(&self.spec, self.packing, &written);
        let begun = begun.map_err(|error| self.failed("open", &error))?;
        if begun.is_none() {
            let (op, path) = (self.op, &*self.path);
            tracing::warn!(
                op,
                path,
                "the files of the interrupted pass are missing, so the elements of this pass are not kept"
            );
        }
        Ok((begun, elements))
    }

    /// Returns the error of an operation that could not `what` the directory. The error names the directory.
    pub(crate) fn failed(&self, what: &str, error: &io::Error) -> ExecError {
        const OF_DATA: [io::ErrorKind; 4] = [
            io::ErrorKind::UnexpectedEof,
            io::ErrorKind::InvalidData,
            io::ErrorKind::NotFound,
            io::ErrorKind::NotADirectory,
        ];
        let kind = if OF_DATA.contains(&error.kind()) {
            ErrorKind::Data
        } else {
            ErrorKind::Resource
        };
        let reason = if error.kind() == io::ErrorKind::UnexpectedEof {
            "a file is truncated".to_owned()
        } else {
            error.to_string()
        };
        let path = &self.path;
        let cure = if kind == ErrorKind::Data {
            "; remove the directory, and the next pass writes it again"
        } else {
            ""
        };
        ExecError::new(kind, self.op, format!("cannot {what} {path}: {reason}{cure}"))
    }
}

/// Checks whether elements may be kept in the directory `path`.
pub(crate) fn permitted(op: &'static str, path: &str, shared: &Shared) -> Result<(), ExecError> {
    let permitted = shared.storage.permits(path);
    permitted.map_err(|error| ExecError::new(error.kind(), op, error.to_string()))
}
