//! The terms of exactly-once jobs and the positions of their trainers, as arguments of Python.

use std::collections::BTreeMap;

use millstream::exactly_once::{ExactTerms, Place};
use pyo3::prelude::*;

/// The terms of an exactly-once job: see [`ExactTerms`].
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct ExactArguments {
    seed: u64,
    trainer: u64,
    trainers: u64,
    /// The number of the first split of which elements are left.
    split: u64,
    /// The splits of which trainers have elements, each with their number.
    had: BTreeMap<u64, u64>,
    numbered: bool,
}

impl From<ExactArguments> for ExactTerms {
    fn from(terms: ExactArguments) -> ExactTerms {
        ExactTerms {
            seed: terms.seed,
            trainer: terms.trainer,
            trainers: terms.trainers,
            place: Place {
                split: terms.split,
                had: terms.had,
            },
            numbered: terms.numbered,
        }
    }
}

/// Returns the position of all trainers together, from their positions in the order of their numbers. A
/// position is the number of a split, and the number of elements that trainers have of each split.
#[pyfunction]
pub(crate) fn joined_places(places: Vec<(u64, BTreeMap<u64, u64>)>) -> (u64, BTreeMap<u64, u64>) {
    let places: Vec<Place> = places
        .into_iter()
        .map(|(split, had)| Place { split, had })
        .collect();
    let Place { split, had } = Place::joined(&places);
    (split, had)
}
