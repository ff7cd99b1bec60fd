//! The definition of `shuffle`, which draws elements at random from a buffer.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::check::check_buffer;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::GraphError;
use crate::graph::tree::Operation;

/// The parameters of `shuffle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Shuffle {
    /// The number of elements in the buffer, at least 1.
    #[n(0)]
    pub buffer: u64,
    /// The seed. Without a seed, every task draws its own order.
    #[n(1)]
    pub seed: Option<u64>,
    /// Whether every pass and epoch draws the same order.
    #[n(2)]
    #[cbor(default)]
    #[serde(default)]
    pub fixed: bool,
    /// Whether the shuffle permutes the positions of its source within blocks of `buffer` positions, instead
    /// of drawing from a buffer. Only exactly-once jobs do so.
    #[n(3)]
    #[cbor(skip_if = "is_unset")]
    #[serde(skip)]
    pub in_blocks: bool,
}

/// Returns whether the encoding leaves the parameter out.
fn is_unset(is_set: &bool) -> bool {
    !is_set
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

    fn mixed_elements(&self) -> u64 {
        if self.in_blocks { 1 } else { self.buffer }
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
        // A buffer of one element leaves no choice.
        self.buffer == 1
    }

    fn passes_files(&self) -> bool {
        true
    }
}

impl Dataset {
    /// Shuffles the elements by uniform draws from a buffer of `buffer` elements. Every pass draws
    /// again. With a seed, all workers draw the same order; without a seed, each worker draws its own.
    ///
    /// Works like `tf.data.Dataset.shuffle` with reshuffling in each iteration. A buffer that exceeds
    /// the pipeline's byte budget is an error. [`Dataset::graph`] refuses a buffer of 0.
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
            in_blocks: false,
        })
    }
}
