//! Tests of splits that a task computes ahead, while it still yields the elements of another split.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use millstream_pipeline::exec::{
    ExecContext, Executor, Functions, PreparedMap, Split, SplitError, SplitNumbers, SplitPart, SplitSource,
    Value,
};
use millstream_pipeline::graph::{Dataset, Graph, Params};
use millstream_pipeline::plan::plan_splits;
use millstream_pipeline::storage::Storage;

use crate::splits::{Dealer, dealer};
use crate::support::{Model, context, functions, model_of};

/// The time of one call. A split has several calls, so each split is slow enough for computing ahead.
const CALL: Duration = Duration::from_millis(3);

/// Counts of a task's splits.
#[derive(Debug, Default)]
struct Counts {
    ended: AtomicU64,
    taken_at_hand: AtomicU64,
}

/// A task whose next split is always at hand. Checks that it asks for a split only if it has read all its
/// splits to the end.
struct AtHand {
    dealer: Dealer,
    taken: u64,
    counts: Arc<Counts>,
}

impl SplitSource for AtHand {
    fn next(&mut self, source: u32, repetition: u64) -> Result<Option<Split>, SplitError> {
        assert_eq!(self.taken, self.counts.ended.load(Ordering::Relaxed));
        let split = self.dealer.next(source, repetition)?;
        self.taken += u64::from(split.is_some());
        Ok(split)
    }

    fn next_at_hand(&mut self, source: u32, repetition: u64) -> Option<Split> {
        let split = self.dealer.next(source, repetition).unwrap();
        self.taken += u64::from(split.is_some());
        self.counts
            .taken_at_hand
            .fetch_add(u64::from(split.is_some()), Ordering::Relaxed);
        split
    }
}

fn slow_functions() -> Functions {
    functions().with_map("waits", |_, input| {
        let call = |value: Value| {
            std::thread::sleep(CALL);
            Ok(value)
        };
        Ok(PreparedMap {
            output: input.clone(),
            call: Arc::new(call),
        })
    })
}

/// Returns numbers whose map runs on `threads` threads.
fn slow_numbers(threads: u32) -> Dataset {
    let number = ElementSpec::single(TensorSpec::fixed(Dtype::I64, &[])).unwrap();
    Dataset::range(0, 40, 1)
        .map_declared("waits", Params::none(), number)
        .parallel(threads)
}

/// Returns an exactly-once dataset of ten splits.
fn in_splits(numbers: Dataset) -> Graph {
    let graph = numbers.batch(4, false).graph().unwrap();
    graph.for_exactly_once(7, &slow_functions()).unwrap()
}

/// Reads all splits. Returns the elements, and the number of splits that were taken while another split was
/// read.
fn read(graph: &Graph) -> (Vec<Model>, u64) {
    let counts: Arc<Counts> = Arc::default();
    let splits = AtHand {
        dealer: dealer(graph),
        taken: 0,
        counts: Arc::clone(&counts),
    };
    let context = ExecContext {
        functions: Arc::new(slow_functions()),
        plan: Some(plan_splits(graph, &slow_functions(), &Storage::default()).unwrap()),
        splits: Some(Box::new(splits)),
        by_split: true,
        ..context()
    };
    let mut executor = Executor::open(graph, context).unwrap();
    let (mut elements, mut finished) = (Vec::new(), Vec::new());
    while let Some(item) = executor.next().unwrap() {
        let bytes = item.value[0].contiguous().unwrap();
        let words = bytes
            .chunks(8)
            .map(|word| i64::from_le_bytes(word.try_into().unwrap()));
        let numbers = SplitNumbers::from_numbers(&words.collect::<Vec<_>>()).unwrap();
        let ends = u64::from(numbers.part != SplitPart::Inner);
        counts.ended.fetch_add(ends, Ordering::Relaxed);
        elements.push(model_of(&item.value[1..].iter().cloned().collect()));
        drop(item);
        executor.finished_splits(&mut finished);
        let ended = counts.ended.load(Ordering::Relaxed);
        assert_eq!(finished.len() as u64, ended, "a split ahead is not finished");
    }
    (elements, counts.taken_at_hand.load(Ordering::Relaxed))
}

#[test]
fn parallel_maps_compute_the_next_split_ahead() {
    let (elements, taken_at_hand) = read(&in_splits(slow_numbers(2)));
    let (expected, taken_in_turn) = read(&in_splits(slow_numbers(1)));
    assert_eq!(elements, expected);
    // The first split shows how long a split takes. From the second one on, a split is computed ahead.
    assert_eq!(taken_at_hand, 8);
    assert_eq!(taken_in_turn, 0);
}

/// Tests that registered functions which are called once at a time are not called for two splits at once.
#[test]
fn sequential_functions_compute_no_split_ahead() {
    let filtered = slow_numbers(2).filter("keep", Params::encode(&(1_i64, 0_i64)).unwrap());
    let mapped = slow_numbers(2).map("add", Params::encode(&1_i64).unwrap());
    for numbers in [filtered, mapped] {
        let (elements, taken_at_hand) = read(&in_splits(numbers));
        assert_eq!((elements.len(), taken_at_hand), (10, 0));
    }
}
