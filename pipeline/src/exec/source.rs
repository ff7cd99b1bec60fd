//! The trait of sources written outside this crate: registered ones, the service reader, and what registered
//! flat_map functions open.

use millstream_element::PackWriter;

use super::error::ExecError;
use super::iterate::Filled;
use super::value::Value;

/// Yields elements one after the other.
pub trait Source: Send {
    /// The next element; `None` at the end. Blocks for as long as it takes.
    ///
    /// # Errors
    /// [`ExecError`], which ends the pipeline, or is tried again or left out, as
    /// [`Dataset::on_error`](crate::graph::Dataset::on_error) says. A source that can be asked for what comes
    /// behind says so by [`ExecError::of_element`]; then that is one element, and with any other error it is
    /// asked for nothing more.
    fn next(&mut self) -> Result<Option<Value>, ExecError>;

    /// Passes over `count` elements, fewer at the end; those that fail are elements too, if the source goes
    /// on behind them. What is overridden should not produce them.
    ///
    /// # Errors
    /// As [`Source::next`].
    fn advance(&mut self, count: u64) -> Result<(), ExecError> {
        for _ in 0..count {
            match self.next() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) if error.is_passable() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns whether others read from it too, each element going to one of them: that it ends without an
    /// element does not say that it never had any.
    fn is_shared(&self) -> bool {
        false
    }

    /// Writes up to `limit` elements, numbered from `sequence`, straight into `pack`: the fast path when
    /// nothing stands between the source and the pack. `None` when there is no such path.
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
