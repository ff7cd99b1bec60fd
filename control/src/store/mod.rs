//! The store of the dispatcher's records: changes go in, all or none, and at a start everything comes out.

mod disk;
mod memory;
#[cfg(test)]
mod tests;

pub use disk::{DiskStore, WorkDirError};
pub use memory::MemoryStore;

use crate::dispatcher::{Change, Record};

/// Keeps records. One dispatcher at a time owns it.
pub trait Store: Send {
    /// Everything that is kept, in any order.
    ///
    /// # Errors
    /// The store cannot be read, or what it holds cannot.
    fn load(&mut self) -> Result<Vec<Record>, StoreError>;

    /// Keeps all of these changes, in order, or none. When it returns they survive whatever the store
    /// survives. May block.
    ///
    /// # Errors
    /// [`StoreError::Full`]: there is no room for them; the same changes, and later ones, may be given again.
    /// [`StoreError::Failed`]: they are not kept. The dispatcher then stops: what it has decided must not
    /// become known.
    fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError>;

    /// Returns whether the store keeps nothing, so that it needs no changes.
    fn is_volatile(&self) -> bool;
}

/// A store does not keep what it was given. The machine's fault, not the caller's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// There is no room. Passes when somebody makes some.
    #[error("the store is full: {0}")]
    Full(String),
    /// Anything else.
    #[error("the dispatcher's store failed: {0}")]
    Failed(String),
}
