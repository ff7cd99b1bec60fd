//! The definition of `rebatch`: batches cut into batches of other sizes.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use millstream_element::ElementSpec;
use minicbor::{Decode, Encode};
use serde::Deserialize;

use crate::graph::cardinality::Cardinality;
use crate::graph::cardinality::rows;
use crate::graph::check::check_buffer;
use crate::graph::codec::encoded;
use crate::graph::dataset::Dataset;
use crate::graph::error::{AnalysisError, GraphError};
use crate::graph::spec::without_leading;
use crate::graph::tree::{Given, Operation};

/// Sizes that a `rebatch` goes through by turns.
const SIZES_MAX: usize = 4096;

/// Parameters of `rebatch`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Rebatch {
    /// Rows of each batch, at least 1, by turns: at least one size.
    #[n(0)]
    pub sizes: Vec<u64>,
    /// Whether a last batch of fewer rows is dropped.
    #[n(1)]
    pub drop_remainder: bool,
}

impl Rebatch {
    /// Rows of batch number `index`.
    pub(crate) fn size(&self, index: u64) -> u64 {
        // A graph's rebatch has at least one size and at most 4096.
        self.sizes[(index % self.sizes.len() as u64) as usize]
    }

    /// The size, if there is one for all batches.
    fn one_size(&self) -> Option<u64> {
        let first = self.sizes.first().copied();
        first.filter(|first| self.sizes.iter().all(|size| size == first))
    }

    /// Returns how many batches so many rows make.
    fn batches(&self, rows: u64) -> u64 {
        // At most 4096 sizes of 2^24.
        let round: u64 = self.sizes.iter().sum();
        let mut left = rows % round;
        let mut batches = rows / round * self.sizes.len() as u64;
        for size in &self.sizes {
            if left < *size {
                break;
            }
            left -= size;
            batches += 1;
        }
        batches + u64::from(left > 0 && !self.drop_remainder)
    }
}

impl Operation for Rebatch {
    fn name(&self) -> &'static str {
        "rebatch"
    }

    fn encode(&self) -> Result<Vec<u8>, GraphError> {
        encoded(self)
    }

    fn check(&self, _: usize) -> Result<(), String> {
        if self.sizes.is_empty() || self.sizes.len() > SIZES_MAX {
            let sizes = self.sizes.len();
            return Err(format!("goes through {sizes} sizes, it takes 1 to {SIZES_MAX}"));
        }
        let mut sizes = self.sizes.iter();
        sizes.try_for_each(|size| check_buffer("batch size", *size))
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        let row = without_leading(given.input()?).map_err(|reason| given.mismatch(reason))?;
        row.batched(self.one_size().filter(|_| self.drop_remainder))
            .map_err(|error| given.mismatch(error.to_string()))
    }

    fn cardinality(&self, given: &Given<'_>) -> Result<Cardinality, AnalysisError> {
        Ok(match (given.count()?, rows(given.input()?)) {
            (Cardinality::Finite(count), Some(rows)) => {
                count.checked_mul(rows).map_or(Cardinality::Unknown, |rows| {
                    Cardinality::Finite(self.batches(rows))
                })
            }
            (Cardinality::Infinite, Some(1..)) => Cardinality::Infinite,
            (Cardinality::Finite(0), _) => Cardinality::Finite(0),
            (Cardinality::Finite(_) | Cardinality::Infinite | Cardinality::Unknown, _) => {
                Cardinality::Unknown
            }
        })
    }

    fn batch_size(&self) -> Option<u64> {
        match self.sizes[..] {
            [size] => Some(size),
            _ => None,
        }
    }

    fn misaligns(&self, _: bool) -> Option<&'static str> {
        Some("makes several elements of one position")
    }
}

impl Dataset {
    /// The rows of this dataset's elements, batches, cut into batches of `size` rows. As `unbatch` and
    /// `batch`, without taking elements apart row by row: what lies within one batch is not copied.
    ///
    /// Works as `tf.data.Dataset.rebatch`. Rows of two shapes that would meet in a batch are an error of that
    /// batch; a size of 0 is refused.
    ///
    /// ```
    /// # use millstream_pipeline::exec::collect;
    /// # use millstream_pipeline::graph::Dataset;
    /// let elements = collect(Dataset::range(0, 6, 1).batch(2, false).rebatch(3, false), 100)?;
    /// assert_eq!((elements.len(), elements[0][0].dims()), (2, &[3][..]));
    /// # Ok::<(), millstream_pipeline::exec::CollectError>(())
    /// ```
    pub fn rebatch(self, size: u64, drop_remainder: bool) -> Dataset {
        self.rebatch_sizes([size], drop_remainder)
    }

    /// Makes batches of these sizes by turns; else as [`Dataset::rebatch`].
    ///
    /// Works as `tf.data.experimental`'s rebatching by sizes.
    pub fn rebatch_sizes(self, sizes: impl IntoIterator<Item = u64>, drop_remainder: bool) -> Dataset {
        let sizes = sizes.into_iter().collect();
        self.then(Rebatch {
            sizes,
            drop_remainder,
        })
    }
}
