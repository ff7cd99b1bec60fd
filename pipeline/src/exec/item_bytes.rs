//! Elements as bytes in files: of caches, snapshots and saved datasets.

use super::error::{ErrorKind, ExecError};
use super::item::Item;
use super::state::{StateReader, StateWriter};
use super::token::Marks;

/// `item` as bytes, computing what it defers; without the splits it stands for.
pub(crate) fn encoded(mut item: Item) -> Result<Vec<u8>, ExecError> {
    item.marks = Marks::new();
    let mut state = StateWriter::new();
    state
        .item(&item)
        .map_err(|error| ExecError::new(ErrorKind::Resource, "element", error.to_string()))?;
    Ok(state.into_bytes())
}

/// The element that these bytes are.
///
/// # Errors
/// The reason, as text, when they are none.
pub(crate) fn decoded(bytes: &[u8]) -> Result<Item, String> {
    let mut state = StateReader::new(bytes);
    let item = state.item().map_err(|error| error.to_string())?;
    state.finish().map_err(|error| error.to_string())?;
    Ok(item)
}
