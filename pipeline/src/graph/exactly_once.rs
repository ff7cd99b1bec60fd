//! The form of a dataset that an exactly-once job reads: its operations run on each split alone.
//!
//! Owns the rules that a dataset must obey, and the size of its splits. Refuses to know jobs and readers.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use thiserror::Error;

use super::cardinality::Cardinality;
use super::error::AnalysisError;
use super::registry::Registry;
use super::tree::Graph;
use super::units::{SPLIT_SIZE_MAX, Splitting, Units};
use crate::ops::shard::draw_all_alike;

/// The number of splits that remain, however large the buffers of shuffles are, so that workers share the
/// dataset.
const SPLITS_KEPT: u64 = 32;

/// The maximum number of batches of a split, unless a shuffle needs more. A reader in order stores the
/// batches of a split while other workers compute earlier splits, and batches are large.
const BATCHES_MAX: u64 = 8;

/// The reason why no exactly-once job can read a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExactlyOnceError {
    /// The analysis of the dataset failed.
    #[error(transparent)]
    Analysis(#[from] AnalysisError),
    /// The elements are no function of the splits.
    #[error("the dataset cannot be read exactly once: {0}")]
    Refused(String),
}

impl Graph {
    /// Returns the dataset as an exactly-once job reads it. Operations without a seed draw with `seed`, and
    /// parallel operations keep their order. If the dataset has batches, a split holds whole batches.
    ///
    /// # Errors
    /// [`ExactlyOnceError`] if the dataset has several sources or no end, or if its source cannot be split.
    /// The error also names an operation that cannot run on each split alone.
    pub fn for_exactly_once(&self, seed: u64, registry: &dyn Registry) -> Result<Graph, ExactlyOnceError> {
        let refused = |reason: String| Err(ExactlyOnceError::Refused(reason));
        let facts = self.facts(registry)?;
        let [source] = facts.sources.as_slice() else {
            return refused(format!(
                "it has {} sources, which have no common order of splits: read each source as a dataset of its own, and \
                 combine them in the trainer",
                facts.sources.len()
            ));
        };
        if let Err(reason) = facts.splittable {
            return refused(reason);
        }
        if facts.cardinality == Cardinality::Infinite {
            return refused(
                "it has no end: leave out repeat(), and repeat the distributed dataset in the trainer"
                    .to_owned(),
            );
        }
        for node in self.nodes() {
            if let Some(reason) = node.op.spans_splits() {
                let name = node.op.name();
                return refused(format!(
                    "operation {name:?} {reason}, but workers run the dataset on each split alone: apply {name:?} after \
                     the distribution"
                ));
            }
        }
        let graph = draw_all_alike(self, seed);
        let graph = match source.splitting {
            Splitting::Counted(units) if graph.split_size().is_none() => {
                let positions = self.exact_split_size(units);
                graph
                    .with_split_size(positions)
                    .map_err(|error| ExactlyOnceError::Refused(error.to_string()))?
            }
            Splitting::Counted(_) | Splitting::Listed | Splitting::Whole(_) => graph,
        };
        match graph.unlike_on_splits(registry, |op| op.drops_remainder())? {
            Some(name) => refused(format!(
                "operation {name:?} drops the last elements of every split, because their number is unknown or does not fill an \
                 element: pass drop_remainder=False, or apply {name:?} after the distribution"
            )),
            None => Ok(graph),
        }
    }

    /// Returns the number of positions of a split: at least the buffer of a shuffle, and if possible a
    /// multiple of the positions of a batch. Apart from that, a split has the default size, but few batches.
    fn exact_split_size(&self, default: Units) -> u64 {
        let ops = || self.nodes().iter().map(|node| &node.op);
        let batch = ops()
            .filter_map(|op| op.batch_size())
            .try_fold(1_u64, |product, size| product.checked_mul(size.max(1)));
        let batch = batch.filter(|batch| *batch <= SPLIT_SIZE_MAX).unwrap_or(1);
        // A buffer as large as the dataset is no reason for large splits: its shuffle permutes the source.
        let positions = default.positions();
        let buffers = ops()
            .map(|op| op.mixed_elements())
            .filter(|buffer| *buffer < positions);
        let mixed = buffers.max().unwrap_or(1).min(positions / SPLITS_KEPT);
        let unit = match batch {
            1 => default.unit(),
            batch => default.unit().min(batch.saturating_mul(BATCHES_MAX)),
        };
        let wanted = unit.max(mixed).min(SPLIT_SIZE_MAX);
        batch * wanted.div_ceil(batch).min(SPLIT_SIZE_MAX / batch).max(1)
    }
}
