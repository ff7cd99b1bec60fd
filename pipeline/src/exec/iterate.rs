//! The trait that every operation implements: a pull iterator that can restart, and whose position can be
//! saved.

use millstream_element::PackWriter;

use super::error::ExecError;
use super::item::Item;
use super::state::{StateError, StateReader, StateWriter};

/// An operation that is being executed. Each operation owns its inputs, and the caller pulls elements at the
/// root of the tree.
pub trait Iterate: Send {
    /// Returns the next element, or `None` at the end of the pass. After the end, further calls return `None`
    /// until [`Iterate::restart`].
    ///
    /// Blocks until the element is produced. After an error that [is passable](ExecError::is_passable), the
    /// operation continues with later elements. After any other error, the tree must not be used.
    ///
    /// # Errors
    /// [`ExecError`] if the element cannot be produced. After the context is cancelled, an error of kind
    /// `Cancelled` is returned soon.
    fn next(&mut self) -> Result<Option<Item>, ExecError>;

    /// Begins the next pass, and drops the rest of the current pass. Sources request the splits of the next
    /// pass. Seeded draws differ from pass to pass.
    ///
    /// # Errors
    /// [`ExecError`] if a source cannot be opened again.
    fn restart(&mut self) -> Result<(), ExecError>;

    /// Returns which passes may follow the current pass. The caller must call this method after the current
    /// pass has ended.
    fn further(&self) -> Further;

    /// Writes the state from which a new tree of the same graph can continue. Blocks until running calls have
    /// returned.
    ///
    /// # Errors
    /// [`StateError`] if an operation below cannot be saved, or if its state is too large.
    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError>;

    /// Restores the position that [`Iterate::save`] wrote. The caller may restore a tree at most once, before
    /// the first call of `next`.
    ///
    /// # Errors
    /// [`StateError`] if the state belongs to another graph.
    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError>;

    /// Writes up to `limit` elements straight into a pack, without an [`Item`] for each element. The elements
    /// are numbered from `sequence`. Only some sources at the root of a tree have this fast path; all other
    /// operations return `None`.
    fn fill_pack(
        &mut self,
        pack: &mut PackWriter,
        sequence: u64,
        limit: usize,
    ) -> Option<Result<Filled, ExecError>> {
        let _ = (pack, sequence, limit);
        None
    }
}

/// The knowledge about the passes that follow, before they begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Further {
    /// Further passes may yield elements.
    Open,
    /// The dispatcher already hands out a later pass to other workers, so the next pass can begin without
    /// waiting.
    Behind,
    /// Other readers share the passes, and may have received all elements of the current pass. An empty pass
    /// therefore says nothing about the next pass.
    Shared,
    /// No further pass will yield an element.
    Nothing,
}

/// Outcome of a bulk write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filled {
    /// The number of elements written.
    pub count: usize,
    /// The reason why the write stopped.
    pub stop: Stop,
}

/// The reason why a bulk write stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The limit is reached, or the source returns early to hand over its elements. At least one element was
    /// written, unless `limit` is 0.
    Limit,
    /// The pack has no space for the next element. The element is kept for the next call.
    Full {
        /// The number of bytes that a pack needs to hold the element.
        needed_bytes: usize,
    },
    /// The dataset has ended.
    End,
}

/// The input of an operation.
pub type Input = Box<dyn Iterate>;
