//! Tests that a saved and restored executor continues as if it had not been interrupted.

use millstream_pipeline::exec::{ExecContext, Executor, StateError};
use millstream_pipeline::graph::{Dataset, Params};
use millstream_testkit::rounds;
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
    #![proptest_config(rounds(200))]

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

/// Returns the reason why an executor of `other` refuses a state that was saved in the middle of
/// `saved`.
fn refusal(saved: (&Dataset, ExecContext), other: (&Dataset, ExecContext)) -> String {
    let mut executor = Executor::open(&saved.0.clone().graph().unwrap(), saved.1).unwrap();
    executor.next().unwrap();
    let state = executor.save().unwrap();
    let mut restored = Executor::open(&other.0.clone().graph().unwrap(), other.1).unwrap();
    match restored.restore(&state) {
        Err(StateError::Foreign { what }) => what.to_owned(),
        result => panic!("{result:?}"),
    }
}

#[test]
fn another_graphs_state_is_refused() {
    let add = |amount: i64| Params::encode(&amount).unwrap();
    let range = || Dataset::range(0, 9, 1);
    let saved = range().map("add", add(1)).shuffle(4, Some(1)).batch(2, false);
    let others = [
        range().map("add", add(2)).shuffle(4, Some(1)).batch(2, false),
        range().map("add", add(1)).shuffle(4, Some(2)).batch(2, false),
        range().map("add", add(1)).shuffle(4, Some(1)).batch(3, false),
        Dataset::range(0, 10, 1)
            .map("add", add(1))
            .shuffle(4, Some(1))
            .batch(2, false),
        range().take(2),
    ];
    for other in &others {
        assert_eq!(
            refusal((&saved, context()), (other, context())),
            "another dataset"
        );
    }
}

#[test]
fn another_tasks_state_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c"] {
        std::fs::write(directory.path().join(name), b"").unwrap();
    }
    let files = Dataset::files_shuffled(format!("{}/*", directory.path().display()), None);
    let refused = |change: &dyn Fn(&mut ExecContext)| {
        let mut other = context();
        change(&mut other);
        refusal((&files, context()), (&files, other))
    };
    assert_eq!(refused(&|other| other.task_id += 1), "another task");
    assert_eq!(refused(&|other| other.epoch += 1), "another epoch");
    assert_eq!(refused(&|other| other.seed = Some(0)), "another seed");
    let mut saved = open(&files.clone().graph().unwrap());
    let state = saved.save().unwrap();
    std::fs::write(directory.path().join("aa"), b"").unwrap();
    let error = open(&files.graph().unwrap()).restore(&state).unwrap_err();
    assert!(
        error.to_string().contains("another listing of the files"),
        "{error}"
    );
}

#[test]
fn bytes_behind_a_state_are_refused() {
    let graph = Dataset::range(0, 9, 1).graph().unwrap();
    let mut state = open(&graph).save().unwrap();
    state.push(0);
    let error = open(&graph).restore(&state).unwrap_err();
    assert!(matches!(error, StateError::Malformed(_)), "{error}");
}
