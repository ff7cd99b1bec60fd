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
    /// [`ExecError`], which ends the pipeline.
    fn next(&mut self) -> Result<Option<Value>, ExecError>;

    /// Passes over `count` elements, fewer at the end. What is overridden should not produce them.
    ///
    /// # Errors
    /// As [`Source::next`].
    fn advance(&mut self, count: u64) -> Result<(), ExecError> {
        for _ in 0..count {
            if self.next()?.is_none() {
                break;
            }
        }
        Ok(())
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
