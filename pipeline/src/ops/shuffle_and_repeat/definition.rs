//! The definition of `shuffle_and_repeat`, which repeats its input and shuffles every pass.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::repeated;
use crate::graph::check::check_buffer;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::tree::{Given, Operation};

/// The parameters of `shuffle_and_repeat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct ShuffleAndRepeat {
    /// The number of elements in the buffer, at least 1.
    #[n(0)]
    pub buffer: u64,
    /// The number of passes. `None` repeats the input without end.
    #[n(1)]
    pub count: Option<u64>,
    /// The seed. Without a seed, every task draws its own order.
    #[n(2)]
    pub seed: Option<u64>,
}

impl Operation for ShuffleAndRepeat {
    fn name(&self) -> &'static str {
        "shuffle_and_repeat"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn check(&self, _: usize) -> Result<(), String> {
        check_buffer("shuffle buffer", self.buffer)
    }

    fn is_alike_on_splits(&self, _: Option<u64>) -> bool {
        self.count == Some(1)
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        Ok(repeated(self.count, given.count()?))
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("mixes positions")
    }

    fn draw_alike(&mut self, seed: u64) {
        self.seed.get_or_insert(seed);
    }
}

impl Dataset {
    /// Repeats the dataset `count` times, or without end for `None`, and shuffles every pass by draws
    /// from a buffer. Yields the same elements in the same order as [`Dataset::shuffle`] followed
    /// by [`Dataset::repeat`]. The buffer already reads the next pass while the current pass ends.
    /// Elements of different passes do not mix.
    ///
    /// Works like `tf.data.experimental.shuffle_and_repeat`.
    ///
    /// ```
    /// # use millstream_pipeline::exec::collect;
    /// # use millstream_pipeline::graph::Dataset;
    /// let elements = collect(Dataset::range(0, 3, 1).shuffle_and_repeat(3, Some(2), Some(1)), 100)?;
    /// assert_eq!((elements.len(), elements[0][0].dims()), (6, &[0u64; 0][..]));
    /// # Ok::<(), millstream_pipeline::exec::CollectError>(())
    /// ```
    pub fn shuffle_and_repeat(self, buffer: u64, count: Option<u64>, seed: Option<u64>) -> Dataset {
        self.then(ShuffleAndRepeat { buffer, count, seed })
    }
}
