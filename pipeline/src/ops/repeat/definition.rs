//! The definition of `repeat`, which yields its input several times.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::repeated;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::tree::{Given, Operation};

/// The parameters of `repeat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// The number of passes. `None` repeats the input without end.
    #[n(0)]
    pub count: Option<u64>,
}

impl Operation for Repeat {
    fn name(&self) -> &'static str {
        "repeat"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn is_alike_on_splits(&self, _: Option<u64>) -> bool {
        self.count == Some(1)
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        Ok(repeated(self.count, given.count()?))
    }

    // `ignores_order` stays false, although `repeat` ignores the order: moving a shuffle above an
    // endless `repeat` would read passes without end.

    fn yields_its_input(&self) -> bool {
        true
    }

    fn does_nothing(&self) -> bool {
        self.count == Some(1)
    }

    fn passes_files(&self) -> bool {
        true
    }
}

impl Dataset {
    /// Repeats the dataset `count` times, or without end for `None`.
    ///
    /// Works like `tf.data.Dataset.repeat`. An endless repetition of an empty dataset ends.
    ///
    /// ```
    /// # use millstream_pipeline::exec::collect;
    /// # use millstream_pipeline::graph::Dataset;
    /// let dataset = Dataset::range(0, 2, 1).repeat(Some(2));
    /// let numbers = collect(dataset, 100)?;
    /// assert!(numbers.iter().map(|value| value[0].as_i64()).eq([0, 1, 0, 1].map(Some)));
    /// # Ok::<(), millstream_pipeline::exec::CollectError>(())
    /// ```
    pub fn repeat(self, count: Option<u64>) -> Dataset {
        self.then(Repeat { count })
    }
}
