//! The encoding of elements in the files of caches, snapshots and saved datasets.

use super::error::{ErrorKind, ExecError};
use super::item::Item;
use super::state::{StateReader, StateWriter};
use super::token::Marks;

/// Encodes `item` as bytes, without its marks. Computes deferred tensors.
pub(crate) fn encoded(mut item: Item) -> Result<Vec<u8>, ExecError> {
    item.marks = Marks::new();
    let mut state = StateWriter::new();
    state
        .item(&item)
        .map_err(|error| ExecError::new(ErrorKind::Resource, "element", error.to_string()))?;
    Ok(state.into_bytes())
}

/// Decodes an element from bytes.
///
/// # Errors
/// A text that states why the bytes are not an element.
pub(crate) fn decoded(bytes: &[u8]) -> Result<Item, String> {
    let mut state = StateReader::new(bytes);
    let item = state.item().map_err(|error| error.to_string())?;
    state.finish().map_err(|error| error.to_string())?;
    Ok(item)
}
