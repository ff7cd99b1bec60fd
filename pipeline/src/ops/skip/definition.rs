//! The definition of `skip`, which drops the first elements.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::cardinality::Cardinality;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::tree::{Given, Operation};

/// The parameters of `skip`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Skip {
    /// The number of elements to drop.
    #[n(0)]
    pub count: u64,
}

impl Operation for Skip {
    fn name(&self) -> &'static str {
        "skip"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        Ok(match given.count()? {
            Cardinality::Finite(all) => Cardinality::Finite(all.saturating_sub(self.count)),
            endless @ (Cardinality::Infinite | Cardinality::Unknown) => endless,
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
        self.count == 0
    }
}

impl Dataset {
    /// Drops the first `count` elements. If the dataset is distributed in splits, each task drops its
    /// own first elements.
    ///
    /// Works like `tf.data.Dataset.skip`.
    ///
    /// ```
    /// # use millstream_pipeline::exec::collect;
    /// # use millstream_pipeline::graph::Dataset;
    /// let dataset = Dataset::range(0, 4, 1).skip(2);
    /// let numbers = collect(dataset, 100)?;
    /// assert!(numbers.iter().map(|value| value[0].as_i64()).eq([2, 3].map(Some)));
    /// # Ok::<(), millstream_pipeline::exec::CollectError>(())
    /// ```
    pub fn skip(self, count: u64) -> Dataset {
        self.then(Skip { count })
    }
}
