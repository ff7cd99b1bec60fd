//! The places in its source of the records that one split yields, computed from the definition of a dataset.
//! Refuses to read records.
//!
//! The order of a source depends only on seeds, the epoch and positions. The place of every record is
//! therefore known, although a worker somewhere else has read it.

use std::ops::Range;

use crate::graph::{AnalysisError, Cardinality, Graph, Node, Registry, Rewrites};
use crate::ops::repeat::Repeat;
use crate::ops::shuffle_and_repeat::ShuffleAndRepeat;

use super::build::order_below;
use super::random::Seeds;

/// The records of one split of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitRecords {
    /// The positions of the split, in the order in which the epoch reads the source.
    pub positions: Range<u64>,
    /// The place of each of these positions in the source. `None` if an operation reads the source again in
    /// another order.
    pub places: Option<Vec<u64>>,
    /// The number of records in every element that the dataset yields on the split, except for the last one.
    /// `None` if an operation decides this when it runs, such as a filter or a shuffle with a buffer.
    pub each: Option<u64>,
}

impl SplitRecords {
    /// Returns the records of a split of the only source, in an epoch of an exactly-once job. Returns `None`
    /// if splits are files, or if the source has no such split.
    ///
    /// The dataset must have the form of [`Graph::for_exactly_once`], whose shuffles have the job's seed. A
    /// split has at most 4096 positions.
    ///
    /// # Errors
    /// [`AnalysisError`] for a source that is not registered.
    pub fn of(
        graph: &Graph,
        registry: &dyn Registry,
        epoch: u64,
        split: u64,
    ) -> Result<Option<SplitRecords>, AnalysisError> {
        let graph = graph.rewritten_for(Rewrites::default(), true);
        let units = graph.counted_units(registry)?;
        let Some(positions) = units.and_then(|units| units.range(split)) else {
            return Ok(None);
        };
        let counts = graph.counts_on(split, registry)?.unwrap_or_default();
        Ok(Some(SplitRecords {
            places: graph.places(&positions, epoch),
            each: graph.records_of_elements(&counts),
            positions,
        }))
    }

    /// Returns the places of the records of one element, and whether these are exactly its records. Otherwise
    /// they are the records of the whole split. Returns `None` if the places are unknown, or if the split has
    /// no element at this position.
    pub fn of_element(&self, position: u64) -> Option<(Vec<u64>, bool)> {
        let places = self.places.as_ref()?;
        let Some(each) = self.each else {
            return Some((places.clone(), false));
        };
        let at = |element: u64| {
            let at = element.saturating_mul(each).min(places.len() as u64);
            // A split has at most 4096 positions.
            at as usize
        };
        let own = places.get(at(position)..at(position.saturating_add(1)))?;
        (!own.is_empty()).then(|| (own.to_vec(), true))
    }
}

impl Graph {
    /// Returns the places in the source that the positions of one split have.
    fn places(&self, positions: &Range<u64>, epoch: u64) -> Option<Vec<u64>> {
        // The outermost shuffle has the highest number, because operations stand after their inputs.
        let mut nodes = (0..self.nodes().len()).rev();
        let permuted = nodes.find_map(|node| Some((node, self.permuted(node)?)));
        let Some((shuffle, (_, count))) = permuted else {
            return Some(positions.clone().collect());
        };
        // Each pass of a repetition has another order.
        let repeats = |node: &Node| node.op.is::<Repeat>() || node.op.is::<ShuffleAndRepeat>();
        if self.nodes().iter().any(repeats) {
            return None;
        }
        let mut order = order_below(self, shuffle, count, |node, shuffle| {
            let seeds = Seeds {
                seed: shuffle.seed,
                task_id: 0,
                epoch,
                node: u64::from(self.origin(node)),
                fixed: false,
            };
            seeds.fixed_if(shuffle.fixed)
        });
        Some(
            positions
                .clone()
                .map(|position| order.place(0, position))
                .collect(),
        )
    }

    /// Returns the number of records of every element but the last, from the number of elements of each
    /// operation on a split. Returns `None` unless each operation stacks or keeps the elements of its input,
    /// in their order.
    fn records_of_elements(&self, counts: &[Cardinality]) -> Option<u64> {
        let (mut each, mut node) = (1_u64, self.output());
        while self.permuted(node).is_none() {
            let one = &self.nodes()[node];
            let [input] = one.inputs[..] else {
                return one.inputs.is_empty().then_some(each);
            };
            let input = input as usize;
            let Cardinality::Finite(below) = *counts.get(input)? else {
                return None;
            };
            let rows = one.op.batch_size().unwrap_or(1).max(1);
            // A stack that drops elements would move the records of stacks above it.
            let is_whole = !one.op.drops_remainder() || below.is_multiple_of(rows);
            let is_kept = one.op.batch_size().is_some() || one.op.ignores_order();
            let is_counted = counts.get(node) == Some(&Cardinality::Finite(below.div_ceil(rows)));
            let is_aligned = one.op.misaligns(self.is_deterministic()).is_none();
            if !(is_whole && is_kept && is_counted && is_aligned) {
                return None;
            }
            each = each.checked_mul(rows)?;
            node = input;
        }
        Some(each)
    }
}
