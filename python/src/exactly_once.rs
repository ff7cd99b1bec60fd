//! The terms of exactly-once jobs and the positions of their trainers, as arguments of Python.

use std::collections::BTreeMap;

use millstream::control::{PoisonLimits, QuarantinedElement};
use millstream::exactly_once::{ExactTerms, Place, QuarantineTerms};
use millstream::pipeline::exec::Functions;
use millstream::pipeline::graph::{Dataset, SplitCounts};
use millstream::pipeline::storage::Storage;
use pyo3::prelude::*;

use crate::failure;
use crate::graph::Graph;

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
    placed: bool,
    limits: Limits,
    any_order: bool,
    /// The digest of the files of the position.
    files: Option<u64>,
    /// The elements that workers leave out, each with its split and its id.
    quarantined: Vec<(u64, u64)>,
}

/// The limits on splits that end their workers, and on elements that fail.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
struct Limits {
    max_skips: u32,
    max_deaths: u32,
    max_quarantined: u32,
    max_failures: u32,
}

impl From<ExactArguments> for ExactTerms {
    fn from(terms: ExactArguments) -> ExactTerms {
        let quarantined = terms.quarantined.into_iter();
        let elements = quarantined.map(|(split, id)| QuarantinedElement { split, id });
        let limits = terms.limits;
        ExactTerms {
            seed: terms.seed,
            trainer: terms.trainer,
            trainers: terms.trainers,
            place: Place {
                split: terms.split,
                had: terms.had,
            },
            placed: terms.placed,
            poison: PoisonLimits {
                max_deaths: limits.max_deaths,
                max_skips: limits.max_skips,
            },
            any_order: terms.any_order,
            files: terms.files,
            quarantine: (limits.max_quarantined > 0).then(|| QuarantineTerms {
                max_elements: limits.max_quarantined,
                max_failures: limits.max_failures,
                elements: elements.collect(),
            }),
        }
    }
}

/// Returns the position of all trainers together, from their positions in the order of their numbers. A
/// position is the number of a split, and the number of elements that trainers have of each split.
#[pyfunction]
pub(crate) fn joined_places(places: Vec<Position>) -> Position {
    let places: Vec<Place> = places.into_iter().map(place).collect();
    pair(Place::joined(&places))
}

/// Returns the position of all trainers together after each has received `steps` more elements. `counts` is
/// the number of splits, of elements of every split except the last one, and of elements of the last split.
#[pyfunction]
pub(crate) fn place_after(
    counts: (u64, u64, u64),
    position: Position,
    trainers: u64,
    steps: u64,
) -> Position {
    pair(place(position).after(&counted(counts), trainers, steps))
}

/// Returns the number of elements that a trainer receives from a position on.
#[pyfunction]
pub(crate) fn steps_left(counts: (u64, u64, u64), position: Position, trainer: u64, trainers: u64) -> u64 {
    place(position).left(&counted(counts), trainer, trainers)
}

/// Returns the split of the element that a trainer receives after `steps` more elements, and the position of
/// the element in it. Returns `None` if the trainer has fewer elements left.
#[pyfunction]
pub(crate) fn element_after(
    counts: (u64, u64, u64),
    position: Position,
    trainer: (u64, u64),
    steps: u64,
) -> Option<(u64, u64)> {
    place(position).element_after(&counted(counts), trainer, steps)
}

/// The records from which the elements of one epoch were made.
#[derive(Debug)]
#[pyclass(frozen, module = "millstream._millstream")]
pub(crate) struct EpochLineage(millstream::exactly_once::EpochLineage);

/// The records of one element. The first two numbers are the first position of its split and the number of
/// positions. The places of the records follow, and whether these are exactly those of the element. The path
/// of the file and its range of bytes are last.
type Records = (
    Option<(u64, u64)>,
    Option<Vec<u64>>,
    bool,
    Option<String>,
    Option<(u64, u64)>,
);

#[pymethods]
impl EpochLineage {
    /// Lists the files of a dataset in the form for exactly-once jobs.
    #[staticmethod]
    fn open(py: Python<'_>, graph: &Graph, epoch: u64) -> PyResult<EpochLineage> {
        let definition = Dataset::from(graph).graph().map_err(failure::dataset)?;
        let make = || {
            let storage = Storage::default();
            millstream::exactly_once::EpochLineage::new(definition, Functions::new(), epoch, &storage)
        };
        Ok(EpochLineage(py.detach(make).map_err(failure::analysis)?))
    }

    /// The reason why this process cannot name the files of splits.
    #[getter]
    fn files_error(&self) -> Option<String> {
        self.0.files_error().map(|error| error.by("this process"))
    }

    fn of(&self, split: u64, position: u64) -> PyResult<Records> {
        let found = self.0.of(split, position).map_err(failure::analysis)?;
        let positions = found
            .split_positions
            .map(|range| (range.start, range.end - range.start));
        let (path, bytes) = match found.file {
            Some(file) => (Some(file.path), file.bytes.map(|range| (range.start, range.end))),
            None => (None, None),
        };
        Ok((positions, found.records, found.is_exact, path, bytes))
    }
}

/// The number of a split, and the number of elements that trainers have of each split from it on.
type Position = (u64, BTreeMap<u64, u64>);

fn place((split, had): Position) -> Place {
    Place { split, had }
}

fn pair(Place { split, had }: Place) -> Position {
    (split, had)
}

fn counted((splits, each, last): (u64, u64, u64)) -> SplitCounts {
    SplitCounts { splits, each, last }
}
