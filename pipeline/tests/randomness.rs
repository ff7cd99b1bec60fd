//! What is drawn differs from pass to pass and from task to task, and with a seed is everybody's.

use millstream_pipeline::exec::{ExecContext, Executor};
use millstream_pipeline::graph::Dataset;
use proptest::prelude::*;

use crate::support::{Model, context, drain, model_of, open};

/// Elements of a body: two orders of them are equal by chance once in 20! draws.
const COUNT: i64 = 20;

/// `calls` calls of a body that shuffles, `passes` times over.
fn shuffled_bodies(calls: i64, passes: u64, seed: Option<u64>) -> Dataset {
    Dataset::range(0, calls, 1)
        .flat_map(|_| Dataset::range(0, COUNT, 1).shuffle(COUNT as u64, seed))
        .repeat(Some(passes))
}

fn orders(dataset: Dataset, task_id: u64, epoch: u64) -> Vec<Vec<Model>> {
    let context = ExecContext {
        task_id,
        epoch,
        ..context()
    };
    let all = drain(&mut Executor::open(&dataset.graph().unwrap(), context).unwrap());
    all.chunks(COUNT as usize).map(<[Model]>::to_vec).collect()
}

#[test]
fn the_body_of_a_function_draws_anew_for_every_element_in_every_pass_and_epoch() {
    for seed in [None, Some(7)] {
        let mut all = orders(shuffled_bodies(3, 4, seed), 1, 0);
        all.extend(orders(shuffled_bodies(3, 4, seed), 1, 1));
        assert_eq!(all.len(), 24);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 24, "two calls drew the same");
    }
}

#[test]
fn a_seeded_body_draws_the_same_in_every_task_and_an_unseeded_one_does_not() {
    let of_task = |seed, task| orders(shuffled_bodies(2, 2, seed), task, 3);
    assert_eq!(of_task(Some(7), 1), of_task(Some(7), 2));
    assert_ne!(of_task(None, 1), of_task(None, 2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn a_body_that_draws_goes_on_where_it_was_saved(cut in 0usize..120) {
        let graph = shuffled_bodies(2, 3, Some(1)).graph().unwrap();
        let expected = drain(&mut open(&graph));
        let mut executor = open(&graph);
        let mut found: Vec<Model> = (0..cut).map(|_| model_of(&executor.next().unwrap().unwrap().value)).collect();
        let state = executor.save().unwrap();
        let mut restored = open(&graph);
        restored.restore(&state).unwrap();
        found.extend(drain(&mut restored));
        prop_assert_eq!(found, expected);
    }
}
