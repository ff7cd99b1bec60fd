//! The number of elements that a dataset yields on each of its splits alone. Refuses to know jobs and
//! readers.
#![deny(clippy::disallowed_methods, clippy::disallowed_types)]

use super::cardinality::Cardinality;
use super::counting::{Counted, cardinalities};
use super::error::AnalysisError;
use super::registry::Registry;
use super::spec::node_specs;
use super::split;
use super::tree::{Graph, Node, Op};
use super::units::{Splitting, Units};

/// The number of elements of each split of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitCounts {
    /// The number of splits.
    pub splits: u64,
    /// The number of elements of every split except the last one.
    pub each: u64,
    /// The number of elements of the last split.
    pub last: u64,
}

impl SplitCounts {
    /// Returns the number of elements of a split; 0 if no split has this number.
    pub fn of(&self, split: u64) -> u64 {
        match self.splits.checked_sub(1) {
            Some(last) if split < last => self.each,
            Some(last) if split == last => self.last,
            Some(_) | None => 0,
        }
    }
}

impl Graph {
    /// Returns the number of elements that the dataset yields on each of its splits alone. Returns `None` if
    /// an operation or the source decides the number when it runs, such as a filter or a list of files.
    ///
    /// # Errors
    /// [`AnalysisError`] for a source that is not registered.
    pub fn split_counts(&self, registry: &dyn Registry) -> Result<Option<SplitCounts>, AnalysisError> {
        let Some(units) = self.counted_units(registry)? else {
            return Ok(None);
        };
        let count = |split: u64| -> Result<Option<u64>, AnalysisError> {
            let all = self.counts_on(split, registry)?;
            Ok(all.and_then(|all| finite(all[self.output()])))
        };
        let splits = units.splits();
        let counts = count(0)?.zip(count(splits.saturating_sub(1))?);
        Ok(counts.map(|(each, last)| SplitCounts { splits, each, last }))
    }

    /// Returns whether the dataset yields on its splits alone the elements that it yields on the whole
    /// source, in any order. Otherwise, for example, a filter before a batch makes a smaller batch of every
    /// split.
    ///
    /// # Errors
    /// [`AnalysisError`] for a source that is not registered.
    pub fn is_alike_on_splits(&self, registry: &dyn Registry) -> Result<bool, AnalysisError> {
        Ok(self.unlike_on_splits(registry, |_| true)?.is_none())
    }

    /// Returns the name of the first operation that `is_checked` accepts and that yields other elements on
    /// splits alone than on the whole source.
    ///
    /// # Errors
    /// [`AnalysisError`] for a source that is not registered.
    pub(crate) fn unlike_on_splits(
        &self,
        registry: &dyn Registry,
        is_checked: impl Fn(&Op) -> bool,
    ) -> Result<Option<&'static str>, AnalysisError> {
        if self
            .counted_units(registry)?
            .is_some_and(|units| units.splits() <= 1)
        {
            return Ok(None);
        }
        let counts = self.counts_on(0, registry)?;
        let is_unlike = |node: &Node| {
            let input = node.inputs.first().zip(counts.as_ref());
            let count = input.and_then(|(input, all)| finite(all[*input as usize]));
            is_checked(&node.op) && !node.op.is_alike_on_splits(count)
        };
        Ok(self
            .nodes()
            .iter()
            .find(|node| is_unlike(node))
            .map(|node| node.op.name()))
    }

    /// Returns the division of the only source by ranges of positions; `None` for other sources.
    pub(crate) fn counted_units(&self, registry: &dyn Registry) -> Result<Option<Units>, AnalysisError> {
        Ok(match split::sources(self, registry)?.as_slice() {
            [source] => match source.splitting {
                Splitting::Counted(units) => Some(units),
                Splitting::Listed | Splitting::Whole(_) => None,
            },
            _ => None,
        })
    }

    /// Returns the number of elements of each node on a split alone; `None` if splits are not ranges.
    pub(crate) fn counts_on(
        &self,
        split: u64,
        registry: &dyn Registry,
    ) -> Result<Option<Vec<Cardinality>>, AnalysisError> {
        let Some(units) = self.counted_units(registry)? else {
            return Ok(None);
        };
        let specs = node_specs(self, registry, None)?;
        let counted = Counted::Split {
            source: self.sources()[0],
            positions: units.range(split).map_or(0, |range| range.end - range.start),
        };
        cardinalities(self, &specs, registry, counted).map(Some)
    }
}

fn finite(count: Cardinality) -> Option<u64> {
    match count {
        Cardinality::Finite(count) => Some(count),
        Cardinality::Infinite | Cardinality::Unknown => None,
    }
}
