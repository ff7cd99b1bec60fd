//! Tests that compare random chains of operations with a naive model on vectors.

use std::collections::BTreeSet;

use millstream_pipeline::graph::{Cardinality, Dataset};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::{Allowed, Model, chain, drain, functions, open};

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

proptest! {
    #![proptest_config(rounds(200))]

    #[test]
    fn a_chain_yields_what_the_model_yields(chain in chain(ORDERED, 0..30)) {
        prop_assert_eq!(drain(&mut open(&chain.graph())), chain.model());
    }

    #[test]
    fn a_shuffled_chain_yields_the_same_elements(chain in chain(SHUFFLED, 0..30)) {
        let mut found = drain(&mut open(&chain.graph()));
        let mut expected = chain.model();
        found.sort();
        expected.sort();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_finite_cardinality_is_the_number_of_elements(chain in chain(ORDERED, 0..30)) {
        let graph = chain.graph();
        let facts = graph.facts(&functions()).unwrap();
        if let Cardinality::Finite(count) = facts.cardinality {
            prop_assert_eq!(count, chain.model().len() as u64);
        }
    }

    #[test]
    fn ranges_have_the_values_of_their_bounds(
        start in -50i64..50,
        stop in -50i64..50,
        step in prop::sample::select(vec![-7i64, -2, -1, 1, 2, 3, 7]),
    ) {
        let found = drain(&mut open(&Dataset::range(start, stop, step).graph().unwrap()));
        let mut expected = Vec::new();
        let mut value = start;
        while (step > 0 && value < stop) || (step < 0 && value > stop) {
            expected.push(Model::Scalar(value));
            value += step;
        }
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn an_unordered_parallel_map_yields_every_element_once(count in 0i64..100, threads in 0u32..5) {
        let params = millstream_pipeline::graph::Params::encode(&0i64).unwrap();
        let dataset = Dataset::range(0, count, 1).map("add", params).parallel(threads).unordered();
        let mut found = drain(&mut open(&dataset.graph().unwrap()));
        found.sort();
        prop_assert_eq!(found, (0..count).map(Model::Scalar).collect::<Vec<_>>());
    }
}

#[test]
fn the_extreme_range_has_its_extreme_values() {
    let dataset = Dataset::range(i64::MIN, i64::MAX, i64::MAX).graph().unwrap();
    assert_eq!(
        drain(&mut open(&dataset)),
        [i64::MIN, -1, i64::MAX - 1].map(Model::Scalar)
    );
}

#[test]
fn shuffles_follow_their_seed() {
    let passes = |seed| {
        let dataset = Dataset::range(0, 100, 1)
            .shuffle(100, seed)
            .repeat(Some(3))
            .batch(100, true);
        drain(&mut open(&dataset.graph().unwrap()))
    };
    let found = passes(Some(7));
    assert_eq!(found, passes(Some(7)));
    assert_ne!(found, passes(Some(8)));
    assert_eq!(
        found.iter().collect::<BTreeSet<_>>().len(),
        3,
        "expected three different orders in three passes"
    );
}

#[test]
fn an_endless_repeat_of_nothing_ends() {
    let dataset = Dataset::range(0, 0, 1).repeat(None).graph().unwrap();
    assert_eq!(drain(&mut open(&dataset)), []);
    assert_eq!(
        dataset.facts(&functions()).unwrap().cardinality,
        Cardinality::Finite(0)
    );
}
