//! The definition of `batch`: consecutive elements stacked.
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

/// Parameters of `batch` and `ragged_batch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// Elements per batch, at least 1.
    #[n(0)]
    pub size: u64,
    /// Whether a last batch of fewer elements is dropped.
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

    fn batch_size(&self) -> Option<u64> {
        Some(self.size)
    }
}

impl Dataset {
    /// `size` consecutive elements stacked along a new leading dimension.
    ///
    /// Works as `tf.data.Dataset.batch`: at the end fewer, unless `drop_remainder`. Elements whose shapes
    /// differ are an error of that batch: see [`Dataset::padded_batch`]. A size of 0 is refused.
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
