//! Tests of the records of an element: the computed places are those that the element itself has.

use millstream_pipeline::exec::SplitRecords;
use millstream_pipeline::graph::{Dataset, Graph, Params, col};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::by_split::{EPOCH, exact, run};
use crate::support::{Model, functions};

/// The first number of the source, and the distance of its numbers.
const START: i64 = 100;
const STEP: i64 = 3;

fn records(graph: &Graph, split: u64) -> Option<SplitRecords> {
    SplitRecords::of(graph, &functions(), EPOCH, split).unwrap()
}

/// Returns the places in the source that an element itself has, in its order.
fn own_places(element: &Model) -> Vec<u64> {
    match element {
        Model::Scalar(number) => vec![((number - START) / STEP) as u64],
        Model::Rows(rows) => rows.iter().flat_map(own_places).collect(),
    }
}

/// An operation that keeps the numbers of the source.
fn then(dataset: Dataset, (operation, size): (u8, u64)) -> Dataset {
    match operation {
        0 => dataset.shuffle(size * 3, None),
        1 => dataset.shuffle(1 << 20, Some(size)),
        2 => dataset.map("add", Params::encode(&0_i64).unwrap()),
        3 => dataset.prefetch(size),
        4 => dataset.filter_expr((col("") % 5).ne(size as i64 % 5)),
        _ => dataset.map("add", Params::encode(&0_i64).unwrap()).parallel(3),
    }
}

/// Checks all elements of a dataset. Returns the number of elements whose records are exact, and of others.
fn checked(graph: &Graph) -> Result<(u64, u64), TestCaseError> {
    let (mut exact, mut inexact) = (0, 0);
    for (split, elements) in run(graph, 1, &[0]) {
        let records = records(graph, split as u64).unwrap();
        for (position, element) in (0..).zip(&elements) {
            let own = own_places(element);
            match records.of_element(position) {
                Some((places, true)) => {
                    prop_assert_eq!(own, places);
                    exact += 1;
                }
                Some((places, false)) => {
                    prop_assert!(own.iter().all(|place| places.contains(place)));
                    inexact += 1;
                }
                None => inexact += 1,
            }
        }
    }
    Ok((exact, inexact))
}

proptest! {
    #![proptest_config(rounds(200))]

    #[test]
    fn places_are_those_of_the_elements(
        count in 1_i64..120,
        split_size in prop::option::of(1_u64..40),
        operations in prop::collection::vec((0_u8..6, 1_u64..9), 0..5),
        batch in prop::option::of((1_u64..9, any::<bool>())),
        shuffled in prop::option::of(2_u64..5),
        repeated in prop::option::of(1_u64..3),
    ) {
        let range = Dataset::range(START, START + STEP * count, STEP);
        let range = split_size.into_iter().fold(range, Dataset::split_size);
        let dataset = operations.into_iter().fold(range, then);
        let dataset = batch.into_iter().fold(dataset, |dataset, (size, drops)| dataset.batch(size, drops));
        let dataset = shuffled.into_iter().fold(dataset, |dataset, size| dataset.shuffle(size, None));
        let dataset = repeated.into_iter().fold(dataset, |dataset, count| dataset.repeat(Some(count)));
        if let Ok(graph) = exact(dataset) {
            checked(&graph)?;
        }
    }
}

#[test]
fn batches_of_shuffled_records_are_exact() {
    let numbers = || Dataset::range(START, START + STEP * 100, STEP);
    for dataset in [
        numbers().batch(10, false),
        numbers().shuffle(1000, None).batch(10, false),
        numbers()
            .shuffle(25, None)
            .map("add", Params::encode(&0_i64).unwrap())
            .batch(8, false),
        numbers().shuffle(100, Some(3)).batch(5, true).batch(2, true),
        numbers(),
    ] {
        let graph = exact(dataset).unwrap();
        assert_eq!(checked(&graph).unwrap().1, 0);
    }
}

#[test]
fn positions_after_the_split_have_no_records() {
    let numbers = Dataset::range(START, START + STEP * 95, STEP).split_size(10);
    let graph = exact(numbers.batch(4, false)).unwrap();
    let (whole, last) = (records(&graph, 0).unwrap(), records(&graph, 9).unwrap());
    let count = |records: &SplitRecords, position| records.of_element(position).map(|(own, _)| own.len());
    assert_eq!(
        [0, 1, 2, 3].map(|position| count(&whole, position)),
        [Some(4), Some(4), Some(2), None]
    );
    assert_eq!(
        [1, 2, u64::MAX].map(|position| count(&last, position)),
        [Some(1), None, None]
    );
}

#[test]
fn filters_leave_the_records_of_the_split() {
    let filtered = Dataset::range(START, START + STEP * 100, STEP).filter_expr((col("") % 2).eq(0));
    let graph = exact(filtered.batch(10, false)).unwrap();
    assert_eq!(checked(&graph).unwrap().0, 0);
    let records = records(&graph, 3).unwrap();
    assert_eq!((records.positions, records.each), (30..40, None));
    assert_eq!(records.places, Some((30..40).collect()));
}

#[test]
fn splits_of_files_have_no_positions() {
    let graph = exact(Dataset::files("/data/*")).unwrap();
    assert_eq!(records(&graph, 0), None);
    let range = exact(Dataset::range(0, 10, 1)).unwrap();
    assert_eq!(records(&range, 10), None, "the source has no such split");
}
