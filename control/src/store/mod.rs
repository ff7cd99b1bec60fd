//! The store of the dispatcher's records. A commit writes a group of changes, all or none; a start loads
//! all records.

mod disk;
mod memory;
#[cfg(test)]
mod tests;

pub use disk::{DiskStore, WorkDirError};
pub use memory::MemoryStore;

use crate::dispatcher::{Change, Record};

/// A store of records, owned by one dispatcher at a time.
pub trait Store: Send {
    /// Returns all stored records, in any order.
    ///
    /// # Errors
    /// The store or a stored record cannot be read.
    fn load(&mut self) -> Result<Vec<Record>, StoreError>;

    /// Stores all of these changes, in order, or none of them. Once the call returns, the changes are as
    /// durable as the store. May block.
    ///
    /// # Errors
    /// [`StoreError::Full`]: the store has no space for the changes. The caller may commit them again,
    /// together with later changes.
    /// [`StoreError::Failed`]: the changes are not stored. The dispatcher then stops, because its decisions
    /// must not become known.
    fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError>;

    /// Returns whether the store keeps no records, so that it needs no changes.
    fn is_volatile(&self) -> bool;
}

/// The error of a store that could not keep or read records; a fault of the machine, not of the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store has no space left, until a person frees some.
    #[error("the store is full: {0}")]
    Full(String),
    /// Any other failure of the store.
    #[error("the dispatcher's store failed: {0}")]
    Failed(String),
}
