//! The directory of a dataset that several workers save: the names of its files, and the end of its saving.
//!
//! The process that saves writes the file `DONE` or `ERROR` last. This module reads no chunk.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The result of a save that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The dataset is complete, and has this number of chunks.
    Done(u64),
    /// The dataset failed for this reason.
    Failed(String),
}

/// The content of the file `DONE`.
#[derive(Debug, Deserialize)]
struct Done {
    chunks: u64,
}

/// The content of the file `ERROR`.
#[derive(Debug, Deserialize)]
struct Failed {
    message: String,
}

/// Returns the path of the chunk with the number `number`.
pub(crate) fn chunk_path(folder: &str, number: u64) -> PathBuf {
    let name = format!("chunk_{number:012}.elements");
    Path::new(folder).join("chunks").join(name)
}

/// Returns the directory of the chunks that are being written.
#[cfg(feature = "saved")]
pub(crate) fn uncommitted(folder: &str) -> PathBuf {
    Path::new(folder).join("uncommitted")
}

/// Returns the result of the save; `None` if the save has not ended.
///
/// # Errors
/// The error of a file that cannot be read.
pub(crate) fn ending(folder: &str) -> io::Result<Option<Ending>> {
    if let Some(done) = read::<Done>(&Path::new(folder).join("DONE"))? {
        return Ok(Some(Ending::Done(done.chunks)));
    }
    let failed = read::<Failed>(&Path::new(folder).join("ERROR"))?;
    Ok(failed.map(|failed| Ending::Failed(failed.message)))
}

fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
