//! The definition of `repeat`: the input several times over.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::repeated;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::tree::{Given, Operation};

/// Parameters of `repeat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// The number of passes; absent = without end.
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

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        Ok(repeated(self.count, given.count()?))
    }

    // A repetition ignores the order too, but ends that are shuffled across would wait for passes without
    // end.

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
    /// The dataset `count` times over, without end for `None`.
    ///
    /// Works as `tf.data.Dataset.repeat`. Without end over nothing, it ends.
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
