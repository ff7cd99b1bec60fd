//! The trait of sources outside this crate: registered sources, the service reader, and the sources that
//! registered flat_map functions open.

use millstream_element::PackWriter;

use super::error::ExecError;
use super::iterate::Filled;
use super::value::Value;

/// A source that yields elements one after the other.
pub trait Source: Send {
    /// Returns the next element, or `None` at the end. Blocks until the element is ready.
    ///
    /// # Errors
    /// [`ExecError`] if the next element fails. [`Dataset::on_error`](crate::graph::Dataset::on_error)
    /// decides whether the error ends the pipeline, is retried, or leaves the element out. A source that can
    /// continue after the failure marks the error with [`ExecError::of_element`]; the failure then counts as
    /// one element. After any other error the source is not called again.
    fn next(&mut self) -> Result<Option<Value>, ExecError>;

    /// Skips `count` elements, or fewer at the end. A failed element counts too, if the source continues
    /// after it. An implementation that overrides this method should not produce the elements.
    ///
    /// # Errors
    /// [`ExecError`] if an element fails and the source cannot continue.
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

    /// Returns the position after the latest element, from which an equal source can continue. `None` if the
    /// source cannot continue at a position.
    fn position(&self) -> Option<Vec<u8>> {
        None
    }

    /// Continues at a position that [`Source::position`] returned. Called at most once, before the first
    /// element.
    ///
    /// # Errors
    /// A text that states why the bytes are no position of this source.
    fn continue_at(&mut self, position: &[u8]) -> Result<(), String> {
        let _ = position;
        Err("the source cannot continue at a position".to_owned())
    }

    /// Returns whether other readers share the source, so that each element goes to one reader. If a shared
    /// source ends without an element, other readers may have received its elements.
    fn is_shared(&self) -> bool {
        false
    }

    /// Writes up to `limit` elements, numbered from `sequence`, straight into `pack`. This fast path serves
    /// sources whose elements no operation changes. Returns `None` if the source has no fast path.
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
