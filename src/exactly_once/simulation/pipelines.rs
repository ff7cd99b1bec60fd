//! Elements of real pipelines, which the executor runs on each split alone.
//!
//! Knows no jobs and no workers. Each pipeline runs twice, over the splits in two orders, as if on two
//! workers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, LazyLock};

use millstream_pipeline::exec::{
    COMPONENTS_ADDED, ExecContext, Executor, Functions, Item, Pool, Split, SplitError, SplitNumbers,
    SplitPart, SplitSource, Tensor,
};
use millstream_pipeline::graph::{Dataset, Graph, SplitCounts, col};
use millstream_pipeline::plan::{SourcePlan, plan_splits};
use millstream_pipeline::storage::Storage;
use millstream_testkit::Chance;

/// The threads of all pipelines.
static POOL: LazyLock<Arc<Pool>> = LazyLock::new(|| Arc::new(Pool::new(1).expect("a pool of one thread")));

/// A pipeline over a range of numbers, in the form of exactly-once jobs.
pub(super) struct SimPipeline {
    graph: Graph,
    functions: Arc<Functions>,
    pub(super) splits: u64,
    pub(super) counts: Option<SplitCounts>,
}

impl SimPipeline {
    /// Draws a pipeline: a range in splits of some numbers, perhaps shuffled and filtered.
    pub(super) fn draw(chance: &mut Chance, seed: u64) -> SimPipeline {
        let functions = Arc::new(Functions::new());
        let mut dataset = Dataset::range(0, chance.within(0..80) as i64, 1).split_size(chance.within(1..9));
        if chance.percent(60) {
            dataset = dataset.shuffle(chance.within(2..12), None);
        }
        if chance.percent(50) {
            let modulus = chance.within(2..5) as i64;
            dataset = dataset.filter_expr((col("") % modulus).eq(1));
        }
        let graph = dataset
            .graph()
            .map(|graph| graph.for_exactly_once(seed, &*functions));
        let graph = graph
            .expect("a graph")
            .expect("a pipeline that runs on each split alone");
        let plan = plan_splits(&graph, &*functions, &Storage::default()).expect("a plan of a range");
        let splits = match plan.sources.first() {
            Some(SourcePlan::Counted { splits }) => *splits,
            other => panic!("expected a counted source, found {other:?}"),
        };
        SimPipeline {
            counts: graph.split_counts(&*functions).expect("counts of a range"),
            graph,
            functions,
            splits,
        }
    }

    /// Returns the values of each split of an epoch. Panics if two workers compute different ones.
    pub(super) fn elements(&self, epoch: u64) -> Vec<Vec<u64>> {
        let forward = self.run(epoch, 1, (0..self.splits).collect());
        let backward = self.run(epoch, 2, (0..self.splits).rev().collect());
        assert_eq!(forward, backward, "the elements of a split depend on the worker");
        (0..self.splits).map(|split| forward[&split].clone()).collect()
    }

    /// Runs the pipeline on the splits in this order.
    fn run(&self, epoch: u64, task_id: u64, splits: VecDeque<u64>) -> BTreeMap<u64, Vec<u64>> {
        let plan =
            plan_splits(&self.graph, &*self.functions, &Storage::default()).expect("a plan of a range");
        let context = ExecContext {
            iteration: epoch,
            epoch,
            plan: Some(plan),
            splits: Some(Box::new(InOrder { splits, leases: 0 })),
            by_split: true,
            ..ExecContext::new(task_id, Arc::clone(&self.functions), Arc::clone(&POOL))
        };
        let mut executor = Executor::open(&self.graph, context).expect("an executor");
        let mut found: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        while let Some(item) = executor.next().expect("an element") {
            let numbers = numbers_of(&item);
            let values = found.entry(numbers.split).or_default();
            if numbers.part != SplitPart::Empty {
                assert_eq!(
                    numbers.position,
                    values.len() as u64,
                    "positions count the elements"
                );
                values.push(words(&item.value[COMPONENTS_ADDED])[0] as u64);
            }
        }
        found
    }
}

fn numbers_of(item: &Item) -> SplitNumbers {
    SplitNumbers::from_numbers(&words(&item.value[0])).expect("the numbers of an element")
}

/// Returns the numbers of a tensor.
fn words(tensor: &Tensor) -> Vec<i64> {
    let bytes = tensor.contiguous().expect("a tensor of numbers");
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| i64::from_le_bytes(*word)).collect()
}

/// A list of splits, which one task reads.
struct InOrder {
    splits: VecDeque<u64>,
    leases: u64,
}

impl SplitSource for InOrder {
    fn next(&mut self, source: u32, repetition: u64) -> Result<Option<Split>, SplitError> {
        self.leases += 1;
        let next = self.splits.pop_front();
        Ok(next.map(|index| Split {
            source,
            repetition,
            index,
            lease: self.leases,
            attempt: 0,
            payload: Vec::new(),
            version: None,
            skipped: false,
        }))
    }
}
