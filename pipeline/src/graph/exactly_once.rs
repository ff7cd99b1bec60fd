//! The form of a dataset that an exactly-once job reads: its operations run on each split alone.
//!
//! Owns the rules that a dataset must obey, and the size of its splits. Refuses to know jobs and readers.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use thiserror::Error;

use super::cardinality::Cardinality;
use super::error::AnalysisError;
use super::registry::Registry;
use super::tree::{Graph, Op};
use super::units::{SPLIT_SIZE_MAX, Splitting, Units};
use crate::ops::map::Map;
use crate::ops::shard::draw_all_alike;

/// The number of splits that remain, however large the buffers of shuffles are, so that workers share the
/// dataset.
const SPLITS_KEPT: u64 = 32;

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
    /// Returns whether several splits may be computed at the same time: the dataset has a parallel map, and
    /// no function that the program expects to be called once at a time.
    pub(crate) fn may_compute_splits_ahead(&self) -> bool {
        let has_parallel_map = self
            .nodes()
            .iter()
            .filter_map(|node| node.op.of::<Map>())
            .any(|map| map.schedule.parallel != 1);
        let is_in_turn = |op: &Op| op.body().is_some() || op.calls_in_turn();
        has_parallel_map && !self.nodes().iter().any(|node| is_in_turn(&node.op))
    }

    /// Returns the dataset with the same elements in the same order in every process, if its functions return
    /// equal results there. Operations without a seed draw with `seed`, and parallel operations keep their
    /// order.
    #[must_use]
    pub fn same_everywhere(&self, seed: u64) -> Graph {
        draw_all_alike(self, seed)
    }

    /// Returns the dataset as an exactly-once job reads it. Operations without a seed draw with `seed`, and
    /// parallel operations keep their order. If the dataset has batches, a split holds whole batches.
    ///
    /// # Errors
    /// [`ExactlyOnceError`] if the dataset has several sources, if its source cannot be split, or if an
    /// operation never ends on a split. The error also names an operation that cannot run on each split
    /// alone.
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
        if self.is_endless_on_splits(registry, facts.cardinality)? {
            return refused(
                "it has no end, because an operation never ends on a split: leave out repeat(), and repeat the distributed dataset \
                 in the trainer"
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
        let graph = draw_all_alike(self, seed).with_shuffles_in_blocks();
        let graph = match source.splitting {
            Splitting::Counted(units) if graph.split_size().is_none() => {
                let positions = graph.exact_split_size(units);
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

    /// Returns whether an operation never ends on a split alone. An endless source, such as `counter`, ends
    /// on each of its splits.
    fn is_endless_on_splits(
        &self,
        registry: &dyn Registry,
        cardinality: Cardinality,
    ) -> Result<bool, AnalysisError> {
        let counts = self.counts_on(0, registry)?;
        let on_split = counts.map_or(cardinality, |counts| counts[self.output()]);
        Ok(on_split == Cardinality::Infinite)
    }

    /// Returns the number of positions of a split.
    ///
    /// A split holds one batch, so that any number of trainers receives the batches in the same order. A
    /// shuffle with a buffer needs a split of the size of its buffer. Without batches, a split has the
    /// default size.
    fn exact_split_size(&self, default: Units) -> u64 {
        let batch = self.rows_of(self.output());
        let batch = batch.filter(|batch| *batch <= SPLIT_SIZE_MAX).unwrap_or(1);
        // A buffer as large as the dataset is no reason for large splits: its shuffle permutes the source.
        let positions = default.positions();
        let buffers = (0..self.nodes().len()).filter_map(|node| {
            let mixed = self.nodes()[node].op.mixed_elements();
            self.rows_of(node)?.checked_mul(mixed)
        });
        let mixed = buffers.filter(|buffer| *buffer < positions).max();
        let mixed = mixed.unwrap_or(1).min(positions / SPLITS_KEPT);
        let unit = if batch == 1 { default.unit() } else { batch };
        let wanted = unit.max(mixed).min(SPLIT_SIZE_MAX);
        batch * wanted.div_ceil(batch).min(SPLIT_SIZE_MAX / batch).max(1)
    }

    /// Returns the number of rows that the operations up to `node` stack in one element; `None` if the number
    /// is too large.
    fn rows_of(&self, node: usize) -> Option<u64> {
        let node = &self.nodes()[node];
        let below = match node.inputs.first() {
            Some(input) => self.rows_of(*input as usize)?,
            None => 1,
        };
        below.checked_mul(node.op.batch_size().unwrap_or(1).max(1))
    }
}
