//! Tests of a dataset divided among workers: the workers' shares together form the whole dataset.

use millstream_pipeline::exec::{ExecContext, ExecError, Executor};
use millstream_pipeline::graph::{
    Dataset, Graph, Params, Sample, ServiceReader, Shard, ShardBy, ShardingError, Share, Shuffle, SpecField,
};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::{Allowed, Chain, Model, chain, context, functions, model_of, scalar, step};

/// Returns the elements of each of `workers` workers when `by` divides `graph`, or the first error.
fn shares(graph: &Graph, by: ShardBy, workers: u64) -> Result<Vec<Vec<Model>>, ExecError> {
    let share = |index| {
        let share = Share {
            count: workers,
            index,
            seed: 77,
        };
        let divided = graph.sharded(by, share).unwrap();
        // Another worker knows a different task number.
        let context = ExecContext {
            task_id: 1000 + index,
            ..context()
        };
        let mut executor = Executor::open(&divided, context).unwrap();
        let mut found = Vec::new();
        while let Some(item) = executor.next()? {
            found.push(model_of(&item.value));
        }
        Ok(found)
    };
    (0..workers).map(share).collect()
}

fn sorted(models: impl IntoIterator<Item = Vec<Model>>) -> Vec<Model> {
    let mut all: Vec<Model> = models.into_iter().flatten().collect();
    all.sort();
    all
}

/// Returns the graph without seeds, and with parallel calls in no particular order.
pub(crate) fn unsteady(graph: &Graph) -> Graph {
    let mut nodes = graph.nodes().to_vec();
    for node in &mut nodes {
        if let Some(shuffle) = node.op.of_mut::<Shuffle>() {
            shuffle.seed = None;
        } else if let Some(sample) = node.op.of_mut::<Sample>() {
            sample.seed = None;
        } else if let Some(schedule) = node.op.change().schedule_mut() {
            schedule.ordered = Some(false);
        }
    }
    Graph::new(nodes).unwrap()
}

pub(crate) fn shards_of(graph: &Graph) -> Vec<Shard> {
    let shards = graph.nodes().iter();
    shards.filter_map(|node| node.op.of().copied()).collect()
}

fn one_of_three(dataset: Dataset, by: ShardBy) -> Result<Graph, ShardingError> {
    let share = Share {
        count: 3,
        index: 1,
        seed: 7,
    };
    dataset.graph().unwrap().sharded(by, share)
}

const ORDERED: Allowed = Allowed {
    shuffle: false,
    counting: true,
    repeat: true,
};
const SHUFFLED: Allowed = Allowed {
    shuffle: true,
    counting: false,
    repeat: true,
};
/// The steps that may follow a shard: their results depend neither on the number of a worker's elements
/// nor on the order.
const EACH_BY_ITSELF: Allowed = Allowed {
    shuffle: true,
    counting: false,
    repeat: false,
};

/// Returns whether every worker has an element, or no worker has one. In all other cases the workers
/// with elements fail.
fn fits(elements: usize, workers: u64) -> bool {
    elements == 0 || elements as u64 >= workers
}

proptest! {
    #![proptest_config(rounds(100))]

    #[test]
    fn by_elements_each_worker_has_every_nth_element(chain in chain(ORDERED, 0..30), workers in 1u64..6) {
        let whole = chain.model();
        match shares(&chain.graph(), ShardBy::Elements, workers) {
            Ok(found) => {
                prop_assert!(fits(whole.len(), workers));
                for (index, share) in found.iter().enumerate() {
                    let expected: Vec<Model> = whole.iter().skip(index).step_by(workers as usize).cloned().collect();
                    prop_assert_eq!(share, &expected);
                }
            }
            Err(error) => prop_assert!(!fits(whole.len(), workers), "{} elements: {}", whole.len(), error),
        }
    }

    #[test]
    fn unordered_shares_are_still_whole(chain in chain(SHUFFLED, 0..30), workers in 1u64..6) {
        let graph = unsteady(&chain.graph());
        let whole = sorted([chain.model()]);
        match shares(&graph, ShardBy::Elements, workers) {
            Ok(found) => prop_assert_eq!(sorted(found), whole),
            Err(error) => prop_assert!(!fits(whole.len(), workers), "{} elements: {}", whole.len(), error),
        }
    }

    #[test]
    fn a_hint_divides_what_comes_before(
        below in chain(SHUFFLED, 0..30),
        above in prop::collection::vec(step(EACH_BY_ITSELF), 0..4),
        workers in 1u64..6,
    ) {
        let hinted = below.dataset().shard_hint();
        let graph = above.iter().fold(hinted, crate::support::extended).graph().unwrap();
        let whole = Chain { steps: [below.steps.clone(), above].concat(), count: below.count };
        match shares(&unsteady(&graph), ShardBy::Hint, workers) {
            Ok(found) => prop_assert_eq!(sorted(found), sorted([whole.model()])),
            Err(error) => prop_assert!(!fits(below.model().len(), workers), "{}", error),
        }
    }
}

#[test]
fn the_end_of_a_prefetch_is_kept() {
    let divided = one_of_three(
        Dataset::range(0, 9, 1).prefetch(2).batch(1, false).prefetch(4),
        ShardBy::Elements,
    )
    .unwrap();
    let names: Vec<&str> = divided.nodes().iter().map(|node| node.op.name()).collect();
    assert_eq!(names, ["range", "prefetch", "batch", "shard", "prefetch"]);
    let expected = Shard {
        count: Some(3),
        index: 1,
        require_non_empty: true,
    };
    assert_eq!(shards_of(&divided), [expected]);
}

#[test]
fn an_empty_dataset_is_divided_too() {
    let graph = Dataset::range(0, 0, 1).graph().unwrap();
    assert_eq!(shards_of(&graph), []);
    let share = Share {
        count: 3,
        index: 1,
        seed: 7,
    };
    let found = shards_of(&graph.sharded(ShardBy::Elements, share).unwrap());
    assert_eq!((found.len(), found[0].count, found[0].index), (1, Some(3), 1));
}

#[test]
fn one_worker_reads_everything_as_it_is() {
    let graph = Dataset::range(0, 9, 1).graph().unwrap();
    let alone = Share {
        count: 1,
        index: 0,
        seed: 7,
    };
    for by in [ShardBy::Files, ShardBy::Elements, ShardBy::FilesOrElements] {
        assert_eq!(graph.sharded(by, alone).unwrap(), graph);
    }
}

#[test]
fn workers_that_do_not_exist_are_refused() {
    let graph = Dataset::range(0, 9, 1).graph().unwrap();
    for (count, index) in [(0, 0), (2, 5), (2, 2)] {
        for by in [
            ShardBy::Files,
            ShardBy::Elements,
            ShardBy::FilesOrElements,
            ShardBy::Hint,
        ] {
            let share = Share {
                count,
                index,
                seed: 7,
            };
            let error = graph.sharded(by, share).unwrap_err();
            assert_eq!(error, ShardingError::NoSuchShare { index, count });
        }
    }
}

#[test]
fn datasets_without_files_divide_by_elements() {
    let reader = ServiceReader {
        params: Params::none(),
        spec: SpecField(scalar()),
        count: None,
        infinite: false,
        resumable: false,
    };
    let numbers = Dataset::range(0, 9, 1).shuffle(3, None).batch(2, false);
    let error = one_of_three(numbers.clone(), ShardBy::Files).unwrap_err();
    let source_name = "range".to_owned();
    assert_eq!(error, ShardingError::NoFiles { source_name });
    let divided = one_of_three(numbers, ShardBy::FilesOrElements).unwrap();
    assert!(divided.nodes().last().unwrap().op.is::<Shard>());
    let error = one_of_three(Dataset::from_service(reader), ShardBy::FilesOrElements).unwrap_err();
    let source_name = "service".to_owned();
    assert_eq!(error, ShardingError::NoOrder { source_name });
}

#[test]
fn without_a_hint_workers_read_everything() {
    let plain = Dataset::range(0, 9, 1).shard(2, 1);
    assert!(!plain.clone().graph().unwrap().has_shard_hint());
    assert_eq!(
        one_of_three(plain.clone(), ShardBy::Hint).unwrap(),
        plain.graph().unwrap()
    );
    let within = Dataset::range(0, 9, 1).flat_map(|argument| argument.repeat(Some(3)).shard_hint());
    let graph = within.graph().unwrap();
    assert!(graph.has_shard_hint());
    let found = shares(&graph, ShardBy::Hint, 3).unwrap();
    assert!(found.iter().all(|share| share.len() == 9), "{found:?}");
    let divided = one_of_three(Dataset::range(0, 9, 1).shard_hint(), ShardBy::Hint).unwrap();
    assert!(!divided.has_shard_hint() && shards_of(&divided)[0].require_non_empty);
}

#[test]
fn an_overgrown_graph_is_refused() {
    let deep = (0..255).fold(Dataset::range(0, 9, 1), |dataset, _| dataset.take(9));
    let error = one_of_three(deep, ShardBy::Elements).unwrap_err();
    assert!(matches!(error, ShardingError::Graph(_)), "{error}");
}

#[test]
fn a_share_has_the_wholes_facts() {
    let dataset = Dataset::range(0, 10, 1).batch(2, true);
    let whole = dataset.clone().graph().unwrap().facts(&functions()).unwrap();
    let share = one_of_three(dataset, ShardBy::Elements).unwrap();
    assert_eq!(share.facts(&functions()).unwrap().spec, whole.spec);
}

#[test]
fn splits_are_divided_below_the_work() {
    let dataset = Dataset::range(0, 103, 1).split_size(8);
    let graph = dataset
        .map("add", Params::encode(&7_i64).unwrap())
        .batch(4, false)
        .graph()
        .unwrap();
    assert!(graph.is_alike_on_splits(&functions()).unwrap());
    let found = shares(&graph, ShardBy::Splits(8), 5).unwrap();
    assert_eq!(
        sorted(found),
        sorted(shares(&graph, ShardBy::Elements, 1).unwrap())
    );
    let share = Share {
        count: 5,
        index: 3,
        seed: 7,
    };
    let last = graph.sharded(ShardBy::Splits(8), share).unwrap();
    let names: Vec<_> = last.nodes().iter().map(|node| node.op.name()).collect();
    assert_eq!(names, ["range", "batch", "shard", "unbatch", "map", "batch"]);
}

#[test]
fn shares_of_splits_may_be_empty() {
    let graph = Dataset::range(0, 2, 1).graph().unwrap();
    let found = shares(&graph, ShardBy::Splits(1), 4).unwrap();
    assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 0, 0]);
}
