//! The definition of `rebatch`, which cuts batches into batches of other sizes.
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
use crate::graph::spec::row_of;
use crate::graph::tree::{Given, Operation};

/// The maximum number of sizes that a `rebatch` cycles through.
const SIZES_MAX: usize = 4096;

/// The parameters of `rebatch`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode, Deserialize)]
#[cbor(map)]
#[serde(deny_unknown_fields)]
pub struct Rebatch {
    /// The sizes of the batches in rows, each at least 1. The operation cycles through the sizes, of
    /// which there is at least one.
    #[n(0)]
    pub sizes: Vec<u64>,
    /// Whether to drop a last batch that has fewer rows.
    #[n(1)]
    pub drop_remainder: bool,
}

impl Rebatch {
    /// Returns the number of rows of batch number `index`.
    pub(crate) fn size(&self, index: u64) -> u64 {
        // A valid graph has 1 to 4096 sizes, so the division is safe.
        self.sizes[(index % self.sizes.len() as u64) as usize]
    }

    /// Returns the size of all batches, if the sizes are equal.
    fn one_size(&self) -> Option<u64> {
        let first = self.sizes.first().copied();
        first.filter(|first| self.sizes.iter().all(|size| size == first))
    }

    /// Returns the number of batches that `rows` rows make.
    fn batches(&self, rows: u64) -> u64 {
        // The sum cannot overflow, because the list has at most 4096 sizes of at most 2^24.
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
            return Err(format!("has {sizes} batch sizes, expected 1 to {SIZES_MAX}"));
        }
        let mut sizes = self.sizes.iter();
        sizes.try_for_each(|size| check_buffer("batch size", *size))
    }

    fn spec(&self, given: &Given<'_>) -> Result<ElementSpec, AnalysisError> {
        let row = row_of(given.input()?).map_err(|reason| given.mismatch(reason))?;
        row.batched(self.one_size().filter(|_| self.drop_remainder))
            .map_err(|error| given.mismatch(error.to_string()))
    }

    fn is_alike_on_splits(&self, _: Option<u64>) -> bool {
        false
    }

    fn drops_remainder(&self) -> bool {
        self.drop_remainder
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
    /// Cuts the rows of this dataset's batches into batches of `size` rows. Equals `unbatch` and
    /// `batch`, but does not separate the rows: rows within one batch are not copied.
    ///
    /// Works like `tf.data.Dataset.rebatch`. If rows of different shapes meet in a batch, that batch
    /// fails. [`Dataset::graph`] refuses a size of 0.
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

    /// Works like [`Dataset::rebatch`], and cycles through the given batch sizes.
    ///
    /// Corresponds to the rebatching by sizes in `tf.data.experimental`.
    pub fn rebatch_sizes(self, sizes: impl IntoIterator<Item = u64>, drop_remainder: bool) -> Dataset {
        let sizes = sizes.into_iter().collect();
        self.then(Rebatch {
            sizes,
            drop_remainder,
        })
    }
}
