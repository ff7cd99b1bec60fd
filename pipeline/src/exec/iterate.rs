//! The trait every operation implements: a pull iterator that can begin again and can be put aside.

use millstream_element::PackWriter;

use super::error::ExecError;
use super::item::Item;
use super::state::{StateError, StateReader, StateWriter};

/// An operation being executed. Each owns its input; the tree is pulled at the root.
pub trait Iterate: Send {
    /// The next element; `None` at the end of the pass, and again whenever asked until [`Iterate::restart`].
    ///
    /// Blocks for as long as producing the element takes. After an error that [is
    /// passable](ExecError::is_passable) it goes on behind what failed; after any other the tree is of no
    /// further use.
    ///
    /// # Errors
    /// [`ExecError`]; of kind `Cancelled` soon after the context's cancel was called.
    fn next(&mut self) -> Result<Option<Item>, ExecError>;

    /// Begins the next pass, dropping what is left of this one. Sources ask for splits of the next
    /// repetition; seeded draws differ from pass to pass.
    ///
    /// # Errors
    /// [`ExecError`] when a source cannot be opened again.
    fn restart(&mut self) -> Result<(), ExecError>;

    /// Returns the passes that may follow this one, after it has ended.
    fn further(&self) -> Further;

    /// Writes everything needed to go on from here in a new tree of the same graph, waiting for calls under
    /// way.
    ///
    /// # Errors
    /// [`StateError`] when something below cannot be put aside, or is too large.
    fn save(&mut self, state: &mut StateWriter) -> Result<(), StateError>;

    /// Puts a new tree where [`Iterate::save`] left the old one. Called at most once, before the first
    /// `next`.
    ///
    /// # Errors
    /// [`StateError`] when the state is not of this graph.
    fn restore(&mut self, state: &mut StateReader<'_>) -> Result<(), StateError>;

    /// The fast path of sources at the root of a tree: writes up to `limit` elements, numbered from
    /// `sequence`, straight into a pack, without an [`Item`] each. `None` when there is no such path, which
    /// is the rule.
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

/// Passes of a dataset that may follow, as far as is known before they begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Further {
    /// They may yield elements.
    Open,
    /// A later pass is being dealt out to other workers already: there is nothing to wait for before the
    /// next.
    Behind,
    /// Other readers share the passes, and may have had all of this one: that it was empty says nothing of
    /// the next.
    Shared,
    /// None will ever yield anything.
    Nothing,
}

/// Outcome of a bulk write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filled {
    /// Elements written.
    pub count: usize,
    /// Reason why the write stopped.
    pub stop: Stop,
}

/// Why a bulk write stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The limit is reached, or the source gives away what it has before the next: at least one element,
    /// unless none was asked for.
    Limit,
    /// The pack has no room for the next element, which is kept for the next call.
    Full {
        /// Bytes that a pack needs to take it.
        needed_bytes: usize,
    },
    /// The dataset has ended.
    End,
}

/// The operation below another.
pub type Input = Box<dyn Iterate>;
