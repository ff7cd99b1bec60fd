//! The dataset of a simulated world: the elements of every split, as a function of seed, epoch and split.
//!
//! Does not know which worker computes a split, and how often.

use millstream_pipeline::graph::SplitCounts;
use millstream_testkit::Chance;

use super::pipelines::SimPipeline;

/// The elements of all splits of some epochs.
#[derive(Debug, Clone)]
pub(super) struct SimDataset {
    /// The number of splits of the source.
    pub(super) splits: u64,
    /// The number of elements of each split, if it is known before the split is read.
    pub(super) counts: Option<SplitCounts>,
    /// For each epoch and split, the values of the elements in order.
    epochs: Vec<Vec<Vec<u64>>>,
}

impl SimDataset {
    /// Draws a dataset. One of twenty has the elements of a real pipeline.
    pub(super) fn draw(chance: &mut Chance, seed: u64, epochs: u64) -> SimDataset {
        if chance.percent(5) {
            let pipeline = SimPipeline::draw(chance, seed);
            return SimDataset {
                splits: pipeline.splits,
                counts: pipeline.counts,
                epochs: (0..epochs).map(|epoch| pipeline.elements(epoch)).collect(),
            };
        }
        // Many small splits, or few large ones.
        let (splits, most) = match chance.percent(60) {
            true => (chance.within(0..50), chance.within(2..9)),
            false => (chance.within(0..14), chance.within(10..40)),
        };
        let is_known = chance.percent(50);
        let counts = SplitCounts {
            splits,
            each: chance.within(0..most),
            last: chance.within(0..most),
        };
        let mut count = |split: u64| match is_known {
            true => counts.of(split),
            false if chance.percent(25) => 0,
            false => chance.within(0..most),
        };
        let epochs = (0..epochs).map(|epoch| {
            let splits = (0..splits).map(|split| {
                let value = |position| value_of(seed, epoch, split, position);
                (0..count(split)).map(value).collect()
            });
            splits.collect()
        });
        SimDataset {
            splits,
            epochs: epochs.collect(),
            counts: is_known.then_some(counts),
        }
    }

    /// Returns the elements of a split.
    pub(super) fn elements(&self, epoch: u64, split: u64) -> &[u64] {
        &self.epochs[epoch as usize][split as usize]
    }
}

/// Returns the value of an element.
fn value_of(seed: u64, epoch: u64, split: u64, position: u64) -> u64 {
    let mut value = seed;
    for part in [epoch, split, position] {
        value = Chance::new(value ^ part).draw();
    }
    value
}
