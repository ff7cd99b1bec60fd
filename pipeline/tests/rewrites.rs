//! Tests that a rewritten graph yields the same elements as the original graph.

use millstream_element::Dtype;
use millstream_pipeline::exec::{ExecContext, Executor, Item};
use millstream_pipeline::graph::{Dataset, Graph, Options, Params, Rewrites};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::{Allowed, Chain, chain, context, extended, model_of, open};

const EVERYTHING: Allowed = Allowed {
    shuffle: true,
    counting: true,
    repeat: true,
};

/// Steps that rewrites remove, merge or move.
#[derive(Debug, Clone)]
enum Extra {
    Take(u64),
    Skip(u64),
    Prefetch(u64),
    Nothing(u8),
    /// A shuffle whose draws depend on its place in the graph.
    Shuffle(u64),
    /// A cast to a larger dtype and back.
    Cast,
}

impl Extra {
    fn applied(&self, dataset: Dataset) -> Dataset {
        match self {
            Extra::Take(count) => dataset.take(*count),
            Extra::Skip(count) => dataset.skip(*count),
            Extra::Prefetch(buffer) => dataset.prefetch(*buffer),
            Extra::Nothing(0) => dataset.take(u64::MAX),
            Extra::Nothing(1) => dataset.skip(0),
            Extra::Nothing(2) => dataset.repeat(Some(1)),
            Extra::Nothing(3) => dataset.shard(1, 0),
            Extra::Nothing(_) => dataset.shuffle(1, None),
            Extra::Shuffle(buffer) => dataset.shuffle(*buffer, None),
            Extra::Cast => dataset.cast("", Dtype::F64).cast("", Dtype::I64),
        }
    }
}

fn extra() -> impl Strategy<Value = Extra> {
    prop_oneof![
        1 => (0u64..30).prop_map(Extra::Take),
        1 => (0u64..5).prop_map(Extra::Skip),
        1 => (1u64..4).prop_map(Extra::Prefetch),
        4 => (0u8..5).prop_map(Extra::Nothing),
        1 => (1u64..9).prop_map(Extra::Shuffle),
        2 => Just(Extra::Cast),
    ]
}

/// Returns the dataset of the chain, with extra steps before and after its steps and within functions.
fn with_extras(chain: &Chain, extras: &[Vec<Extra>]) -> Dataset {
    let mut extras = extras.iter();
    let mut add = |dataset: Dataset| {
        let more = extras.next().map(Vec::as_slice).unwrap_or_default();
        more.iter().fold(dataset, |dataset, extra| extra.applied(dataset))
    };
    let mut dataset = add(Dataset::range(0, chain.count, 1));
    for step in &chain.steps {
        dataset = add(extended(dataset, step));
    }
    dataset.flat_map(add)
}

fn switched(dataset: &Dataset, rewrites: Rewrites) -> Graph {
    let options = Options {
        rewrites: Some(rewrites),
        ..Options::default()
    };
    dataset.clone().with_options(options).graph().unwrap()
}

fn items(executor: &mut Executor) -> Vec<(crate::support::Model, u64)> {
    let seen = |item: Item| (model_of(&item.value), item.position);
    std::iter::from_fn(|| executor.next().unwrap().map(seen)).collect()
}

proptest! {
    #![proptest_config(rounds(200))]

    #[test]
    fn rewrites_change_no_element_position_or_draw(
        chain in chain(EVERYTHING, 0..30),
        extras in prop::collection::vec(prop::collection::vec(extra(), 0..4), 0..8),
        cut in 0usize..20,
    ) {
        let dataset = with_extras(&chain, &extras);
        let plain = items(&mut open(&switched(&dataset, Rewrites::OFF)));
        let graph = switched(&dataset, Rewrites::default());
        prop_assert_eq!(&items(&mut open(&graph)), &plain);
        let mut executor = open(&graph);
        for _ in 0..cut {
            executor.next().unwrap();
        }
        let state = executor.save().unwrap();
        let mut restored = open(&graph);
        restored.restore(&state).unwrap();
        prop_assert_eq!(items(&mut restored), plain.into_iter().skip(cut).collect::<Vec<_>>());
    }
}

#[test]
fn what_is_executed_is_what_is_drawn() {
    let drawn = |dataset: &Dataset, rewrites| {
        let context = ExecContext {
            measured: true,
            ..context()
        };
        let mut executor = Executor::open(&switched(dataset, rewrites), context).unwrap();
        items(&mut executor);
        executor.explain().to_string()
    };
    let zero = || Params::encode(&0i64).unwrap();
    let dataset = Dataset::range(0, 9, 1)
        .skip(0)
        .map("add", zero())
        .map("add", zero())
        .take(u64::MAX);
    let rewritten = drawn(&dataset, Rewrites::default());
    assert!(
        !rewritten.contains("skip") && !rewritten.contains("take"),
        "{rewritten}"
    );
    assert_eq!(rewritten.matches("in the step above").count(), 1, "{rewritten}");
    let plain = drawn(&dataset, Rewrites::OFF);
    assert!(plain.contains("skip") && plain.contains("take"), "{plain}");
    assert!(!plain.contains("in the step above"), "{plain}");
}

#[test]
fn a_failure_names_the_operation_as_defined() {
    let dataset = Dataset::range(0, 9, 1)
        .skip(0)
        .batch(2, false)
        .take(u64::MAX)
        .batch(3, false);
    let mut executor = open(&dataset.graph().unwrap());
    let error = loop {
        match executor.next() {
            Ok(item) => assert!(item.is_some(), "nothing failed"),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().ends_with("; operation 4"), "{error}");
}
