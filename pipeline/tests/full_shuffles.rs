//! Tests of shuffles that take in a whole source. Such a shuffle is one order that workers share, and
//! holds no elements.

use std::collections::BTreeSet;

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use millstream_pipeline::exec::{Budget, ExecContext, Executor};
use millstream_pipeline::graph::{ConstantTensor, Dataset, Graph, col};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::splits::{Dealer, dealer, fed};
use crate::support::{context, number, open};

fn shuffled(count: i64, seed: Option<u64>) -> Dataset {
    Dataset::range(0, count, 1).shuffle(count.max(1) as u64, seed)
}

fn numbers(executor: &mut Executor) -> Vec<i64> {
    std::iter::from_fn(|| executor.next().unwrap().map(|item| number(&item))).collect()
}

/// Returns the elements of each of `workers` workers. The workers take splits from one dealer, and the
/// test reads the workers in turn.
fn shares(graph: &Graph, workers: u64) -> Vec<Vec<i64>> {
    let dealer = dealer(graph);
    let mut executors: Vec<Executor> = (0..workers).map(|task| fed(graph, &dealer, task)).collect();
    let mut found = vec![Vec::new(); executors.len()];
    let mut is_over = false;
    while !is_over {
        is_over = true;
        for (executor, found) in executors.iter_mut().zip(&mut found) {
            if let Some(item) = executor.next().unwrap() {
                found.push(number(&item));
                is_over = false;
            }
        }
    }
    found
}

/// Returns the order in which a task yields the elements, if the task reads all splits.
fn order_of(dataset: &Dataset, task_id: u64, iteration: u64) -> Vec<i64> {
    let graph = dataset.clone().graph().unwrap();
    let dealer: Dealer = dealer(&graph);
    let context = ExecContext {
        task_id,
        iteration,
        splits: Some(Box::new(dealer)),
        ..context()
    };
    numbers(&mut Executor::open(&graph, context).unwrap())
}

proptest! {
    #![proptest_config(rounds(60))]

    #[test]
    fn every_element_comes_once_a_pass(count in 0i64..300, seed: Option<u64>, passes in 1u64..4, workers in 1u64..4) {
        let graph = shuffled(count, seed).map_expr(col("") + 1).repeat(Some(passes)).graph().unwrap();
        let mut found = shares(&graph, workers).concat();
        found.sort_unstable();
        let expected: Vec<i64> = (1..=count).flat_map(|number| std::iter::repeat_n(number, passes as usize)).collect();
        prop_assert_eq!(&found, &expected);
        let mut here = numbers(&mut open(&graph));
        here.sort_unstable();
        prop_assert_eq!(here, expected);
    }

    #[test]
    fn shuffled_sources_go_on_where_they_were_saved(count in 1i64..60, passes in 1u64..4, cut in 0usize..120) {
        let graph = shuffled(count, None).map_expr(col("") * 3).repeat(Some(passes)).graph().unwrap();
        let whole = numbers(&mut open(&graph));
        let mut executor = open(&graph);
        for _ in 0..cut {
            executor.next().unwrap();
        }
        let state = executor.save().unwrap();
        let mut restored = open(&graph);
        restored.restore(&state).unwrap();
        prop_assert_eq!(numbers(&mut restored), whole.into_iter().skip(cut).collect::<Vec<_>>());
    }
}

#[test]
fn workers_share_one_order_evenly() {
    let graph = shuffled(1000, None).split_size(4).graph().unwrap();
    let alone = shares(&graph, 1).remove(0);
    let shared = shares(&graph, 3);
    for share in &shared {
        assert!(share.len() >= 300, "{} of 1000", share.len());
        let runs = share.chunks(4);
        let places: Vec<usize> = runs
            .map(|run| alone.windows(4).position(|window| window == run).unwrap())
            .collect();
        assert!(
            places.is_sorted() && places.iter().all(|place| place % 4 == 0),
            "{places:?}"
        );
    }
}

#[test]
fn iterations_differ_and_their_tasks_do_not() {
    let unseeded = shuffled(100, None);
    assert_eq!(order_of(&unseeded, 1, 7), order_of(&unseeded, 2, 7));
    assert_ne!(order_of(&unseeded, 1, 7), order_of(&unseeded, 1, 8));
    let seeded = shuffled(100, Some(3));
    assert_eq!(order_of(&seeded, 1, 7), order_of(&seeded, 2, 8));
    let alike = seeded.clone().drawn_alike().repeat(Some(2));
    let passes = order_of(&alike, 1, 7);
    assert_eq!(passes[..100], passes[100..]);
    let again = order_of(&seeded.repeat(Some(2)), 1, 7);
    assert_ne!(again[..100], again[100..]);
}

#[test]
fn full_shuffles_hold_nothing() {
    let graph = shuffled(1_000_000, None).graph().unwrap();
    let context = ExecContext {
        budget: Budget::new(600),
        ..context()
    };
    let mut executor = Executor::open(&graph, context).unwrap();
    let first: BTreeSet<i64> = (0..1000)
        .map(|_| number(&executor.next().unwrap().unwrap()))
        .collect();
    assert_eq!(first.len(), 1000);
    assert!(executor.save().unwrap().len() < 300);
}

#[test]
fn rows_of_constants_are_shuffled_too() {
    let bytes: Vec<u8> = (0i64..50).flat_map(i64::to_le_bytes).collect();
    let spec = ElementSpec::single(TensorSpec::fixed(Dtype::I64, &[50])).unwrap();
    let rows = Dataset::tensor_slices(spec, vec![ConstantTensor::fixed(bytes)]).shuffle(50, Some(1));
    let mut found = numbers(&mut open(&rows.graph().unwrap()));
    assert!(!found.is_sorted());
    found.sort_unstable();
    assert_eq!(found, (0..50).collect::<Vec<_>>());
}
