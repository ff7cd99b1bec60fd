//! An executor saved and restored goes on as if nothing had happened.

use millstream_pipeline::exec::{Executor, StateError};
use millstream_pipeline::graph::Dataset;
use proptest::prelude::*;

use crate::support::{Allowed, Model, chain, context, drain, model_of, open};

const EVERYTHING: Allowed = Allowed {
    shuffle: true,
    counting: true,
    repeat: true,
};

fn pull(executor: &mut Executor, count: usize) -> Vec<Model> {
    let mut pulled = Vec::new();
    while pulled.len() < count
        && let Some(item) = executor.next().unwrap()
    {
        pulled.push(model_of(&item.value));
    }
    pulled
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_restored_executor_finishes_as_the_uninterrupted_one(
        chain in chain(EVERYTHING, 0..30),
        cuts in prop::collection::vec(0usize..25, 1..4),
    ) {
        let graph = chain.graph();
        let uninterrupted = drain(&mut open(&graph));
        let mut interrupted = Vec::new();
        let mut executor = open(&graph);
        for cut in cuts {
            interrupted.extend(pull(&mut executor, cut));
            let state = executor.save().unwrap();
            executor = open(&graph);
            executor.restore(&state).unwrap();
        }
        prop_assert_eq!(executor.handed(), interrupted.len() as u64);
        interrupted.extend(drain(&mut executor));
        prop_assert_eq!(interrupted, uninterrupted);
    }

    #[test]
    fn saving_does_not_disturb(chain in chain(EVERYTHING, 0..30), cut in 0usize..25) {
        let graph = chain.graph();
        let mut executor = open(&graph);
        let mut found = pull(&mut executor, cut);
        executor.save().unwrap();
        found.extend(drain(&mut executor));
        prop_assert_eq!(found, drain(&mut open(&graph)));
    }

    #[test]
    fn arbitrary_states_never_panic(
        chain in chain(EVERYTHING, 0..10),
        cut in 0usize..9,
        at: prop::sample::Index,
        byte: u8,
    ) {
        let graph = chain.graph();
        let mut executor = open(&graph);
        pull(&mut executor, cut);
        let mut state = executor.save().unwrap();
        let at = at.index(state.len());
        state[at] = byte;
        let mut damaged = open(&graph);
        if damaged.restore(&state).is_ok() {
            for _ in 0..100 {
                match damaged.next() {
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => break,
                }
            }
        }
    }
}

#[test]
fn the_state_of_another_graph_is_refused() {
    let mut saved = open(&Dataset::range(0, 9, 1).batch(2, false).graph().unwrap());
    let state = saved.save().unwrap();
    let other = Dataset::range(0, 9, 1).take(2).graph().unwrap();
    let error = Executor::open(&other, context())
        .unwrap()
        .restore(&state)
        .unwrap_err();
    assert!(
        matches!(error, StateError::Mismatch { expected: "take", .. }),
        "{error}"
    );
}
