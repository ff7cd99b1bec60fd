//! The functions that save a dataset as a whole.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use millstream_element::ElementSpec;
use thiserror::Error;

use crate::graph::{Graph, Packing};
use crate::saved::{Begun, ElementReader, Folder};

use super::context::ExecContext;
use super::error::{ErrorKind, ExecError};
use super::executor::Executor;
use super::item_bytes::encoded;
use super::program::OpenError;

/// Number of shards in which a dataset is saved. Elements go to the shards in turn, and
/// [`Dataset::load`](crate::graph::Dataset::load) reads them in the same order.
pub(crate) const SHARDS: u64 = 8;

/// The reason why a dataset cannot be saved.
#[derive(Debug, Clone, Error)]
pub enum SaveError {
    /// The saved dataset cannot be executed.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The elements cannot be made or written.
    #[error(transparent)]
    Exec(#[from] ExecError),
}

/// Executes `graph` to its end and saves its elements in the directory `path`. Returns the number of
/// elements. After the call, the directory is complete or does not exist.
/// [`Dataset::load`](crate::graph::Dataset::load) reads the saved dataset.
///
/// # Errors
/// [`SaveError`] if the dataset cannot be executed or written. The kind is `Caller` if the directory exists
/// already, or if another process saves to it.
pub fn save(graph: &Graph, context: ExecContext, path: &Path, packing: Packing) -> Result<u64, SaveError> {
    let mut executor = Executor::open(graph, context)?;
    let refused = |why: &str| {
        let message = format!("{} {why}", path.display());
        ExecError::new(ErrorKind::Caller, "save", message)
    };
    let failed = |error: std::io::Error| {
        let message = format!("cannot save in {}: {error}", path.display());
        ExecError::new(ErrorKind::Resource, "save", message)
    };
    let mut sink = match Folder::new(path)
        .begin(executor.spec(), packing)
        .map_err(failed)?
    {
        Begun::Writing(sink) => sink,
        Begun::Whole(_) => {
            return Err(refused("exists already: remove it, or save to another directory").into());
        }
        Begun::Taken => return Err(refused("is being saved by another process").into()),
    };
    while let Some(item) = executor.next()? {
        let number = executor.handed() - 1;
        sink.write(number % SHARDS, &encoded(item)?).map_err(failed)?;
    }
    sink.finish().map_err(failed)?;
    Ok(executor.handed())
}

/// Returns the spec of the dataset saved in the directory `path`, or `None` if the dataset has no elements.
///
/// # Errors
/// [`ExecError`] of kind `Data` if no dataset was saved there, or if it is damaged.
pub fn saved_spec(path: &Path) -> Result<Option<ElementSpec>, ExecError> {
    let failed = |error: std::io::Error| {
        let message = format!("cannot read the dataset saved in {}: {error}", path.display());
        ExecError::new(ErrorKind::Data, "load", message)
    };
    let nothing = || failed(std::io::ErrorKind::NotFound.into());
    let shards = Folder::new(path).shards().map_err(failed)?.ok_or_else(nothing)?;
    let Some(first) = shards.first() else {
        return Ok(None);
    };
    let file = File::open(first).map_err(failed)?;
    let reader = ElementReader::new(BufReader::new(file)).map_err(failed)?;
    Ok(Some(reader.header().spec().clone()))
}
