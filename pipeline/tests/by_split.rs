//! Tests of datasets that run on each split alone: workers that divide the splits in any way yield the same
//! elements of each split, in the same order.

use std::collections::{BTreeMap, BTreeSet};

use millstream_pipeline::exec::{
    COMPONENTS_ADDED, ExecContext, Executor, FinishedSplit, Item, Split, SplitError, SplitNumbers, SplitPart,
    SplitSource,
};
use millstream_pipeline::graph::{Dataset, ExactlyOnceError, Graph, Packing, Params, SplitCounts};
use millstream_pipeline::plan::{SplitPlan, plan_splits};
use millstream_pipeline::storage::Storage;
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::splits::{Dealer, dealer};
use crate::support::{Allowed, Model, chain, context, functions, model_of};

const SPLITWISE: Allowed = Allowed {
    shuffle: true,
    counting: false,
    repeat: true,
};

/// The splits of a source, each with its elements in order.
pub(crate) type Splits = BTreeMap<i64, Vec<Model>>;

fn plan_of(graph: &Graph) -> SplitPlan {
    plan_splits(graph, &functions(), &Storage::default()).unwrap()
}

/// The epoch that [`run`] reads, and the seed of [`exact`].
pub(crate) const EPOCH: u64 = 2;
pub(crate) const SEED: u64 = 7;

fn executor(graph: &Graph, dealer: &Dealer, task_id: u64) -> Executor {
    let context = ExecContext {
        task_id,
        iteration: 9,
        epoch: EPOCH,
        plan: Some(plan_of(graph)),
        splits: Some(Box::new(dealer.clone())),
        by_split: true,
        ..context()
    };
    Executor::open(graph, context).unwrap()
}

/// Adds an element to its split, and notes whether the split is over. Checks the numbers that a reader
/// relies on.
fn note(item: &Item, splits: &mut Splits, over: &mut BTreeSet<i64>) {
    let bytes = item.value[0].contiguous().unwrap();
    let words = bytes
        .chunks(8)
        .map(|word| i64::from_le_bytes(word.try_into().unwrap()));
    let numbers = SplitNumbers::from_numbers(&words.collect::<Vec<_>>()).unwrap();
    let (split, position, part) = (numbers.split as i64, numbers.position as i64, numbers.part);
    let known = splits.entry(split).or_default();
    assert_eq!(
        known.len() as i64,
        position,
        "positions count the split's elements"
    );
    if matches!(part, SplitPart::Inner | SplitPart::Last) {
        let value = item.value[COMPONENTS_ADDED..].iter().cloned().collect();
        known.push(model_of(&value));
    }
    if part != SplitPart::Inner {
        assert!(over.insert(split), "split {split} ended twice");
    }
}

/// Runs `workers` workers until all have ended. Returns the elements of each split.
pub(crate) fn run(graph: &Graph, workers: usize, turns: &[usize]) -> Splits {
    let dealer = dealer(graph);
    let mut running: Vec<_> = (0..workers)
        .map(|task| Some(executor(graph, &dealer, task as u64)))
        .collect();
    let (mut splits, mut over) = (Splits::new(), BTreeSet::new());
    let mut finished: Vec<FinishedSplit> = Vec::new();
    let mut turn = turns.iter().copied().cycle();
    while running.iter().any(Option::is_some) {
        let start = turn.next().unwrap() % workers;
        let mut order = (start..start + workers).map(|worker| worker % workers);
        let worker = order.find(|worker| running[*worker].is_some()).unwrap();
        let executor = running[worker].as_mut().unwrap();
        let next = executor.next().unwrap();
        if let Some(item) = &next {
            note(item, &mut splits, &mut over);
        }
        let has_ended = next.is_none();
        drop(next);
        executor.finished_splits(&mut finished);
        if has_ended {
            running[worker] = None;
        }
    }
    assert_eq!(over, splits.keys().copied().collect());
    let leases: BTreeSet<u64> = finished.iter().map(|split| split.lease).collect();
    assert_eq!(leases.len(), finished.len(), "a lease finished twice");
    assert_eq!(leases, (0..dealer.leases()).collect());
    splits
}

/// Deals splits, one of which was given up.
struct Skipping {
    dealer: Dealer,
    skipped: u64,
}

impl SplitSource for Skipping {
    fn next(&mut self, source: u32, repetition: u64) -> Result<Option<Split>, SplitError> {
        let split = self.dealer.next(source, repetition)?;
        Ok(split.map(|split| Split {
            skipped: split.index == self.skipped,
            ..split
        }))
    }
}

#[test]
fn a_skipped_split_is_not_opened() {
    let fails_at_3 = Params::encode(&3_i64).unwrap();
    let graph = exact(Dataset::range(1, 6, 1).split_size(2).map("fails", fails_at_3)).unwrap();
    let splits = Skipping {
        dealer: dealer(&graph),
        skipped: 1,
    };
    let context = ExecContext {
        plan: Some(plan_of(&graph)),
        splits: Some(Box::new(splits)),
        by_split: true,
        ..context()
    };
    let mut executor = Executor::open(&graph, context).unwrap();
    let (mut splits, mut over) = (Splits::new(), BTreeSet::new());
    while let Some(item) = executor.next().unwrap() {
        note(&item, &mut splits, &mut over);
    }
    let elements = |split: i64| splits[&split].iter().map(scalar).collect::<Vec<_>>();
    assert_eq!(
        [elements(0), elements(1), elements(2)],
        [vec![1, 2], vec![], vec![5]]
    );
    assert_eq!(over, [0, 1, 2].into());
}

fn rows(batch: &Model) -> usize {
    let Model::Rows(rows) = batch else {
        panic!("expected a batch, found {batch:?}")
    };
    rows.len()
}

fn scalar(element: &Model) -> i64 {
    let Model::Scalar(number) = element else {
        panic!("expected a number, found {element:?}")
    };
    *number
}

pub(crate) fn exact(dataset: Dataset) -> Result<Graph, ExactlyOnceError> {
    dataset.graph().unwrap().for_exactly_once(SEED, &functions())
}

proptest! {
    #![proptest_config(rounds(100))]

    #[test]
    fn any_workers_yield_the_same_splits(
        chain in chain(SPLITWISE, 0..60),
        workers in 1usize..5,
        turns in prop::collection::vec(0usize..5, 1..20),
    ) {
        let Ok(graph) = chain.graph().for_exactly_once(7, &functions()) else {
            return Ok(());
        };
        let alone = run(&graph, 1, &[0]);
        // The counts of splits are known before any split is read.
        if let Some(counts) = graph.split_counts(&functions()).unwrap() {
            prop_assert_eq!(alone.len() as u64, counts.splits);
            for (split, elements) in &alone {
                prop_assert_eq!(elements.len() as u64, counts.of(*split as u64), "split {}", split);
            }
        }
        if graph.is_alike_on_splits(&functions()).unwrap() {
            let whole = whole(&chain.graph());
            prop_assert_eq!(alone.values().flatten().count(), whole.len());
            prop_assert_eq!(numbers(alone.values().flatten()), numbers(&whole));
        }
        prop_assert_eq!(run(&graph, workers, &turns), alone);
    }

    #[test]
    fn chunks_hold_the_elements_of_their_splits(
        chain in chain(SPLITWISE, 0..20),
        workers in 1usize..4,
        turns in prop::collection::vec(0usize..5, 1..20),
        packing in 0usize..3,
    ) {
        let Ok(graph) = chain.graph().for_exactly_once(7, &functions()) else {
            return Ok(());
        };
        let packing = [Packing::None, Packing::Lz4, Packing::Gzip][packing];
        let folder = tempfile::tempdir().unwrap();
        for name in ["chunks", "uncommitted"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let path = folder.path().to_str().unwrap();
        let elements = run(&graph, 1, &[0]);
        let writing = Dataset::from(graph.clone()).write_chunk(path, packing).graph().unwrap();
        let receipts = run(&writing, workers, &turns);
        let counts: Vec<i64> = receipts.values().map(|receipt| scalar(&receipt[0])).collect();
        let wanted: Vec<i64> = elements.values().map(|elements| elements.len() as i64).collect();
        prop_assert_eq!(counts, wanted);
        let spec = graph.facts(&functions()).unwrap().spec;
        let saved = Dataset::chunks(path, Some(elements.len() as u64), None).elements(spec);
        let mut saved = Executor::open(&saved.graph().unwrap(), context()).unwrap();
        let next = || saved.next().unwrap().map(|item| model_of(&item.value));
        let read: Vec<Model> = std::iter::from_fn(next).collect();
        prop_assert_eq!(read, elements.into_values().flatten().collect::<Vec<Model>>());
    }
}

/// Returns the elements of the dataset on its whole source.
fn whole(graph: &Graph) -> Vec<Model> {
    let mut executor = Executor::open(graph, context()).unwrap();
    std::iter::from_fn(|| executor.next().unwrap().map(|item| model_of(&item.value))).collect()
}

/// Returns the sorted numbers of elements, because a shuffle makes other batches of the same numbers.
pub(crate) fn numbers<'a>(elements: impl IntoIterator<Item = &'a Model>) -> Vec<i64> {
    fn flattened(model: &Model, into: &mut Vec<i64>) {
        match model {
            Model::Scalar(number) => into.push(*number),
            Model::Rows(rows) => rows.iter().for_each(|row| flattened(row, into)),
        }
    }
    let mut found = Vec::new();
    elements
        .into_iter()
        .for_each(|element| flattened(element, &mut found));
    found.sort_unstable();
    found
}

#[test]
fn counts_of_splits_are_known_without_reading() {
    let counts = |dataset: Dataset| exact(dataset).unwrap().split_counts(&functions()).unwrap();
    let batched = Dataset::range(0, 1000, 1)
        .assert_cardinality(1000)
        .split_size(96)
        .batch(32, false);
    let wanted = SplitCounts {
        splits: 11,
        each: 3,
        last: 2,
    };
    assert_eq!(counts(batched), Some(wanted));
    assert_eq!((wanted.of(9), wanted.of(10), wanted.of(11)), (3, 2, 0));
    let skipping = Dataset::range(0, 1000, 1).ignore_errors(false);
    assert_eq!(counts(skipping), None, "errors leave elements out");
}

#[test]
fn splits_of_endless_sources_end() {
    let added = Dataset::counter(0, 1).map("add", Params::encode(&7_i64).unwrap());
    let graph = exact(added.shuffle(8, None).batch(4, false)).unwrap();
    let counts = graph.split_counts(&functions()).unwrap().unwrap();
    assert_eq!((counts.splits, counts.each), (u64::MAX.div_ceil(4), 1));
    let mut executor = executor(&graph, &dealer(&graph), 0);
    let (mut splits, mut over) = (Splits::new(), BTreeSet::new());
    for _ in 0..10 {
        note(&executor.next().unwrap().unwrap(), &mut splits, &mut over);
    }
    assert_eq!(over, (0..10).collect());
    // Each block of two splits holds eight numbers in an order of its own.
    let blocks: Vec<Vec<i64>> = (0..5)
        .map(|block| {
            numbers(
                splits
                    .range(2 * block..2 * block + 2)
                    .flat_map(|(_, found)| found),
            )
        })
        .collect();
    let expected = (0..5).map(|block| (8 * block + 7..8 * block + 15).collect::<Vec<i64>>());
    assert!(blocks.into_iter().eq(expected));
}

#[test]
fn splits_hold_whole_batches() {
    let graph = exact(Dataset::range(0, 1000, 1).batch(32, false)).unwrap();
    assert_eq!(graph.split_size(), Some(32));
    let batches = run(&graph, 1, &[0]).into_values().flatten();
    let sizes: Vec<usize> = batches.map(|batch| rows(&batch)).collect();
    assert_eq!(sizes.iter().filter(|size| **size == 32).count(), 31);
    assert_eq!(sizes.len(), 32, "only the last batch is shorter");
    let few = exact(Dataset::range(0, 1 << 20, 1).batch(32, false)).unwrap();
    assert_eq!(few.split_size(), Some(32), "a split is one batch");
    let nested = exact(Dataset::range(0, 9000, 1).batch(4, true).batch(3, true)).unwrap();
    assert_eq!(nested.split_size(), Some(12));
    let shuffled = exact(Dataset::range(0, 9600, 1).shuffle(100, None).batch(32, true)).unwrap();
    assert_eq!(
        shuffled.split_size(),
        Some(32),
        "the source is permuted in blocks"
    );
    let batches = exact(Dataset::range(0, 9600, 1).batch(4, true).shuffle(10, None)).unwrap();
    assert_eq!(
        batches.split_size(),
        Some(40),
        "a buffer of batches is filled from one split"
    );
}

#[test]
fn shuffles_permute_blocks_of_their_source() {
    let added = Dataset::range(0, 1000, 1).map("add", Params::encode(&7_i64).unwrap());
    let graph = exact(added.shuffle(100, None).batch(8, false)).unwrap();
    let batches = run(&graph, 2, &[0, 1, 1]);
    let numbers: Vec<i64> = batches
        .values()
        .flatten()
        .flat_map(|batch| match batch {
            Model::Rows(rows) => rows.iter().map(|row| scalar(row) - 7).collect::<Vec<_>>(),
            Model::Scalar(_) => panic!("expected a batch, found {batch:?}"),
        })
        .collect();
    for (block, found) in (0..).zip(numbers.chunks(100)) {
        let mut sorted = found.to_vec();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(block * 100..(block + 1) * 100));
        assert!(!found.is_sorted());
    }
}

#[test]
fn shuffles_differ_between_splits() {
    let graph = exact(Dataset::range(0, 80, 1).split_size(20).shuffle(10, None)).unwrap();
    let splits = run(&graph, 1, &[0]);
    let orders: BTreeSet<Vec<i64>> = splits
        .iter()
        .map(|(split, elements)| {
            elements
                .iter()
                .map(|element| scalar(element) - 20 * split)
                .collect()
        })
        .collect();
    assert_eq!(orders.len(), 4, "each split has an order of its own");
}

#[test]
fn whole_batches_make_splits_alike() {
    let range = || Dataset::range(0, 1000, 1);
    let is_alike = |dataset: Dataset| exact(dataset).unwrap().is_alike_on_splits(&functions()).unwrap();
    assert!(is_alike(range().shuffle(10, None).batch(32, true)));
    assert!(
        is_alike(range().split_size(1000).batch(32, true)),
        "the only split is the dataset"
    );
    assert!(!is_alike(range().split_size(50).batch(32, false)));
    assert!(!is_alike(range().ignore_errors(false).batch(32, false)));
    assert!(!is_alike(range().repeat(Some(2))));
}

#[test]
fn operations_over_the_whole_dataset_are_refused() {
    let range = || Dataset::range(0, 10, 1);
    for (dataset, wanted) in [
        (range().take(3), "take"),
        (range().skip(3), "skip"),
        (range().enumerate(0), "enumerate"),
        (range().repeat(None), "no end"),
        (Dataset::counter(0, 1).repeat(Some(2)).repeat(None), "no end"),
        (Dataset::zip([range(), range()]), "2 sources"),
        (range().split_size(5).batch(2, true), "drop_remainder"),
        (range().ignore_errors(false).batch(2, true), "drop_remainder"),
    ] {
        let refused = exact(dataset).unwrap_err().to_string();
        assert!(refused.contains(wanted), "{refused}");
    }
}
