//! The definition of `prefetch`, which buffers elements before the caller asks for them.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::AUTO;
use crate::graph::check::check_buffer;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::GraphError;
use crate::graph::tree::Operation;

/// The parameters of `prefetch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Prefetch {
    /// The size of the buffer in elements, at least 1. The executor limits the size to 4096. [`AUTO`]
    /// (0) lets the executor choose.
    #[n(0)]
    pub buffer: u64,
}

impl Operation for Prefetch {
    fn name(&self) -> &'static str {
        "prefetch"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn deciding_params(&self) -> Result<Option<Vec<u8>>, GraphError> {
        Ok(None)
    }

    fn check(&self, _: usize) -> Result<(), String> {
        if self.buffer == u64::from(AUTO) {
            return Ok(());
        }
        check_buffer("prefetch buffer", self.buffer)
    }

    fn ignores_order(&self) -> bool {
        true
    }

    fn yields_its_input(&self) -> bool {
        true
    }

    fn passes_files(&self) -> bool {
        true
    }
}

impl Dataset {
    /// Buffers up to `buffer` elements in a separate thread, before the caller asks for them. The size
    /// is limited to 4096 elements and to the pipeline's byte budget. [`AUTO`] (0) starts with two
    /// elements, and doubles the size whenever a buffer that was full runs empty.
    ///
    /// Works like `tf.data.Dataset.prefetch`.
    ///
    /// ```
    /// # use millstream_pipeline::exec::collect;
    /// # use millstream_pipeline::graph::Dataset;
    /// let dataset = Dataset::range(0, 3, 1).prefetch(2);
    /// let numbers = collect(dataset, 100)?;
    /// assert!(numbers.iter().map(|value| value[0].as_i64()).eq([0, 1, 2].map(Some)));
    /// # Ok::<(), millstream_pipeline::exec::CollectError>(())
    /// ```
    pub fn prefetch(self, buffer: u64) -> Dataset {
        self.then(Prefetch { buffer })
    }
}
