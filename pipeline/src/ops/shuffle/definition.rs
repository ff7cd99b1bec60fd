//! The definition of `shuffle`: a uniform draw from a buffer of elements.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::check::check_buffer;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::GraphError;
use crate::graph::tree::Operation;

/// Parameters of `shuffle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Shuffle {
    /// Elements held to draw from, at least 1.
    #[n(0)]
    pub buffer: u64,
    /// The seed; without one every task draws its own.
    #[n(1)]
    pub seed: Option<u64>,
    /// Whether every pass and epoch draws alike.
    #[n(2)]
    #[cbor(default)]
    #[serde(default)]
    pub fixed: bool,
}

impl Operation for Shuffle {
    fn name(&self) -> &'static str {
        "shuffle"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn check(&self, _: usize) -> Result<(), String> {
        check_buffer("shuffle buffer", self.buffer)
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("mixes positions")
    }

    fn ignores_order(&self) -> bool {
        true
    }

    fn yields_its_input(&self) -> bool {
        true
    }

    fn draw_alike(&mut self, seed: u64) {
        self.seed.get_or_insert(seed);
    }

    fn fix_draws(&mut self) -> bool {
        self.fixed = true;
        true
    }

    fn does_nothing(&self) -> bool {
        // There is one element to draw from.
        self.buffer == 1
    }

    fn passes_files(&self) -> bool {
        true
    }
}

impl Dataset {
    /// Uniform draws from a buffer of elements, again every pass: the same on every worker with a seed, each
    /// worker's own without.
    ///
    /// Works as `tf.data.Dataset.shuffle` that reshuffles each iteration. The buffer is counted by its bytes
    /// too: one that does not fit into the pipeline's byte budget is an error. One of 0 is refused.
    ///
    /// ```
    /// # use millstream_pipeline::exec::collect;
    /// # use millstream_pipeline::graph::Dataset;
    /// let shuffled = collect(Dataset::range(0, 100, 1).shuffle(100, Some(7)), 100)?;
    /// let mut numbers: Vec<_> = shuffled.iter().map(|value| value[0].as_i64()).collect();
    /// assert!(!numbers.is_sorted());
    /// numbers.sort();
    /// assert!(numbers.into_iter().eq((0..100).map(Some)));
    /// # Ok::<(), millstream_pipeline::exec::CollectError>(())
    /// ```
    pub fn shuffle(self, buffer: u64, seed: Option<u64>) -> Dataset {
        self.then(Shuffle {
            buffer,
            seed,
            fixed: false,
        })
    }
}
