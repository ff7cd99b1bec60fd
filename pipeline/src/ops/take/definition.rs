//! The definition of `take`, which yields the first elements.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::cardinality::Cardinality;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::tree::{Given, Operation};

/// The parameters of `take`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Take {
    /// The number of elements to yield.
    #[n(0)]
    pub count: u64,
}

impl Operation for Take {
    fn name(&self) -> &'static str {
        "take"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        Ok(match given.count()? {
            _ if self.count == 0 => Cardinality::Finite(0),
            Cardinality::Finite(count) => Cardinality::Finite(count.min(self.count)),
            Cardinality::Infinite => Cardinality::Finite(self.count),
            Cardinality::Unknown => Cardinality::Unknown,
        })
    }

    fn spans_splits(&self) -> Option<&'static str> {
        Some("counts the elements of the whole dataset")
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("counts the elements of each task, not positions of the source")
    }

    fn yields_its_input(&self) -> bool {
        true
    }

    fn does_nothing(&self) -> bool {
        // No pass has more than `u64::MAX` elements.
        self.count == u64::MAX
    }
}

impl Dataset {
    /// Yields the first `count` elements. If the dataset is distributed in splits, each task yields its
    /// own first elements.
    ///
    /// Works like `tf.data.Dataset.take`.
    ///
    /// ```
    /// # use millstream_pipeline::exec::collect;
    /// # use millstream_pipeline::graph::Dataset;
    /// let dataset = Dataset::range(0, 9, 1).take(2);
    /// let numbers = collect(dataset, 100)?;
    /// assert!(numbers.iter().map(|value| value[0].as_i64()).eq([0, 1].map(Some)));
    /// # Ok::<(), millstream_pipeline::exec::CollectError>(())
    /// ```
    pub fn take(self, count: u64) -> Dataset {
        self.then(Take { count })
    }
}
