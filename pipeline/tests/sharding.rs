//! Tests of the shards of a dataset: their elements, and the shards that are refused.

use millstream_pipeline::exec::{ErrorKind, ExecError, Executor, OpenError};
use millstream_pipeline::graph::{Cardinality, Dataset, Graph, Node, Shard};
use proptest::prelude::*;

use crate::support::{context, drain, functions, number, open};

/// Returns shard `index` of `count` of `0..elements`, with `require_non_empty`.
fn demanding(elements: i64, count: u64, index: u64) -> Graph {
    let mut nodes = Dataset::range(0, elements, 1).graph().unwrap().nodes().to_vec();
    let shard = Shard {
        count: Some(count),
        index,
        require_non_empty: true,
    };
    nodes.push(Node {
        op: shard.into(),
        inputs: vec![0],
    });
    Graph::new(nodes).unwrap()
}

fn numbers(graph: &Graph) -> Result<Vec<i64>, ExecError> {
    let mut executor = open(graph);
    let mut found = Vec::new();
    while let Some(item) = executor.next()? {
        found.push(number(&item));
    }
    Ok(found)
}

proptest! {
    #[test]
    fn the_shards_hold_every_element_once(elements in 0i64..50, count in 1u64..9) {
        let mut found = Vec::new();
        for index in 0..count {
            let graph = Dataset::range(0, elements, 1).shard(count, index).graph().unwrap();
            let shard = numbers(&graph).unwrap();
            let rest = |number: &i64| number.rem_euclid(count as i64);
            prop_assert!(shard.iter().all(|number| rest(number) == index as i64));
            let cardinality = graph.facts(&functions()).unwrap().cardinality;
            prop_assert_eq!(cardinality, Cardinality::Finite(shard.len() as u64));
            found.extend(shard);
        }
        found.sort_unstable();
        prop_assert_eq!(found, (0..elements).collect::<Vec<_>>());
    }

    #[test]
    fn an_empty_shard_is_refused_if_required(elements in 0i64..12, count in 1u64..9, index in 0u64..9) {
        let index = index % count;
        let found = numbers(&demanding(elements, count, index));
        if (elements as u64) < count && index < elements as u64 {
            let error = found.unwrap_err();
            prop_assert_eq!(error.kind(), ErrorKind::Caller);
            let message = format!("{elements} elements, which is not enough for {count} shards");
            prop_assert!(error.to_string().contains(&message), "{}", error);
        } else {
            let expected: Vec<i64> = (index as i64..elements).step_by(count as usize).collect();
            prop_assert_eq!(found.unwrap(), expected);
        }
    }
}

#[test]
fn every_pass_is_sharded_alike() {
    let graph = Dataset::range(0, 5, 1)
        .shard(2, 1)
        .repeat(Some(2))
        .graph()
        .unwrap();
    assert_eq!(numbers(&graph).unwrap(), [1, 3, 1, 3]);
}

#[test]
fn an_unnumbered_hint_is_refused() {
    let inside = Dataset::range(0, 9, 1).flat_map(|argument| argument.shard_hint());
    for dataset in [Dataset::range(0, 9, 1).shard_hint().batch(2, false), inside] {
        let error = Executor::open(&dataset.graph().unwrap(), context()).unwrap_err();
        assert!(matches!(error, OpenError::ShardHint), "{error}");
    }
}

#[test]
fn a_restored_shard_continues() {
    let graph = demanding(9, 4, 1);
    let mut executor = open(&graph);
    assert_eq!(number(&executor.next().unwrap().unwrap()), 1);
    let state = executor.save().unwrap();
    let mut restored = open(&graph);
    restored.restore(&state).unwrap();
    assert_eq!(drain(&mut restored), [crate::support::Model::Scalar(5)]);
}
