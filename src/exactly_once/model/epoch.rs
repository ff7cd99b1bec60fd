//! An epoch in the model of the exactly-once protocol: its splits, and the plan that a trainer must receive.

use crate::exactly_once::place::Place;
use crate::exactly_once::sequence::Sequence;

/// The name of an element: its split, and its position in the split.
pub(super) type Name = (u64, u64);

/// An epoch of one trainer.
#[derive(Debug, Clone)]
pub(super) struct ModelEpoch {
    /// For each split of the source, the number of its elements.
    pub(super) counts: Vec<u64>,
    /// The trainer's first split, and the distance of its splits.
    pub(super) first: u64,
    pub(super) step: u64,
    /// The position at which the trainer begins.
    pub(super) begin: Place,
}

impl ModelEpoch {
    /// Returns the elements that the trainer must receive, in order.
    pub(super) fn plan(&self) -> Vec<Name> {
        let splits = (self.begin.first_split(self.first, self.step)..self.end()).step_by(self.step as usize);
        let elements = |split: u64| {
            let had = self.begin.had.get(&split).copied().unwrap_or(0);
            (had..self.counts[split as usize]).map(move |position| (split, position))
        };
        splits.flat_map(elements).collect()
    }

    pub(super) fn end(&self) -> u64 {
        self.counts.len() as u64
    }

    /// Returns the first state of a job that begins at `place`.
    pub(super) fn open(&self, place: &Place) -> (u64, Sequence<Name>) {
        (
            place.first_split(self.first, self.step),
            Sequence::new(place, self.first, self.step),
        )
    }
}
