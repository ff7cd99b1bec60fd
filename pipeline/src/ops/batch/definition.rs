//! The definition of `batch`, which stacks consecutive elements.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;
use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::batched;
use crate::graph::check::check_buffer;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::tree::{Given, Operation};

/// The parameters of `batch` and `ragged_batch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// The number of elements per batch, at least 1.
    #[n(0)]
    pub size: u64,
    /// Whether to drop a last batch that has fewer elements.
    #[n(1)]
    pub drop_remainder: bool,
}

impl Operation for Batch {
    fn name(&self) -> &'static str {
        "batch"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn check(&self, _: usize) -> Result<(), String> {
        check_buffer("batch size", self.size)
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        let size = self.drop_remainder.then_some(self.size);
        given
            .input()?
            .batched(size)
            .map_err(|error| given.not_allowed(error))
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        Ok(batched(given.count()?, self.size, self.drop_remainder))
    }

    fn is_alike_on_splits(&self, count: Option<u64>) -> bool {
        count.is_some_and(|count| count.is_multiple_of(self.size))
    }

    fn drops_remainder(&self) -> bool {
        self.drop_remainder
    }

    fn batch_size(&self) -> Option<u64> {
        Some(self.size)
    }
}

impl Dataset {
    /// Stacks every `size` consecutive elements along a new leading dimension.
    ///
    /// Works like `tf.data.Dataset.batch`: the last batch is smaller, or is dropped if `drop_remainder`
    /// is set. If the shapes of its elements differ, a batch fails; [`Dataset::padded_batch`] accepts
    /// elements of different shapes. [`Dataset::graph`] refuses a size of 0.
    ///
    /// ```
    /// # use millstream_pipeline::exec::collect;
    /// # use millstream_pipeline::graph::Dataset;
    /// let elements = collect(Dataset::range(0, 7, 1).batch(3, false), 100)?;
    /// assert_eq!((elements.len(), elements[0][0].dims()), (3, &[3][..]));
    /// # Ok::<(), millstream_pipeline::exec::CollectError>(())
    /// ```
    pub fn batch(self, size: u64, drop_remainder: bool) -> Dataset {
        self.then(Batch { size, drop_remainder })
    }
}
