//! The contract between a dispatcher and its store, and the errors of stores.

use std::pin::Pin;

use tokio::sync::watch;

use crate::dispatcher::{Change, Record};

/// A store of records, owned by one dispatcher at a time.
pub trait Store: Send {
    /// Returns all stored records, in any order. May block, and must not be called by a task of a runtime.
    ///
    /// # Errors
    /// The store or a stored record cannot be read.
    fn load(&mut self) -> Result<Vec<Record>, StoreError>;

    /// Stores all of these changes, in order, or none of them. Once the call returns, the changes are as
    /// durable as the store. May block. A commit without changes stores nothing. It blocks until this
    /// dispatcher certainly leads.
    ///
    /// # Errors
    /// [`StoreError::Full`]: the store has no space for the changes. The caller may commit them again,
    /// together with later changes.
    /// [`StoreError::Lost`]: another dispatcher owns the store, or is about to.
    /// [`StoreError::Failed`]: the changes are not stored. The dispatcher then stops, because its decisions
    /// must not become known.
    fn commit(&mut self, changes: &[Change]) -> Result<(), StoreError>;

    /// Returns whether the store keeps no records, so that it needs no changes.
    fn is_volatile(&self) -> bool;

    /// Returns whether the lease of this dispatcher has not run out by the process's clock, so that the
    /// dispatcher may answer without a commit. A standby that found the dispatcher's port closed may have
    /// ended the lease earlier, at most one renewal before. Always true for a store without other
    /// dispatchers.
    fn is_held(&self) -> bool {
        true
    }

    /// Tells the other dispatchers of the store that the service was shut down (C17.6). May block for
    /// seconds. Has no effect on a store without other dispatchers.
    fn end_service(&mut self) {}

    /// Gives the store up, so that another dispatcher can lead at once. May block for seconds. Commits after
    /// this call fail. Has no effect on a store without other dispatchers.
    fn release(&mut self) {}
}

/// The wait of a [`Candidate`].
pub type Campaign<'a> = Pin<Box<dyn Future<Output = Result<Option<Box<dyn Store>>, StoreError>> + Send + 'a>>;

/// A dispatcher that waits until it owns a store which several dispatchers share.
pub trait Candidate: Send {
    /// Waits until this dispatcher leads, and returns the store. Returns `None` if the service was shut down.
    /// `address` is the address that the other dispatchers give to processes. Dropping the store gives the
    /// leadership up. Cancel-safe.
    ///
    /// # Errors
    /// The store refuses this dispatcher for good.
    fn campaign<'a>(&'a mut self, address: &'a str) -> Campaign<'a>;

    /// Returns the address of the current leader, as far as this dispatcher knows. `None` while no
    /// dispatcher leads.
    fn leader(&self) -> watch::Receiver<Option<String>>;
}

/// The error of a store that could not keep or read records; a fault of the machine, not of the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store has no space left, until a person frees some.
    #[error("the store is full: {0}")]
    Full(String),
    /// This dispatcher no longer owns the store.
    #[error("this dispatcher no longer leads: {0}")]
    Lost(String),
    /// Any other failure of the store.
    #[error("the dispatcher's store failed: {0}")]
    Failed(String),
}
