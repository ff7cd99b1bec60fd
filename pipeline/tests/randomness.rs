//! Tests of random draws: draws differ between passes and between tasks, and agree everywhere with a
//! seed.

use std::sync::Arc;

use millstream_pipeline::exec::{
    ErrorKind, ExecContext, ExecError, Executor, Functions, PreparedSitedFlatMap, Site, Source, Tensor, Value,
};
use millstream_pipeline::graph::{Dataset, Params};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::{Model, context, drain, model_of, open, scalar};

/// The number of elements of a body. Two random orders of the elements are equal with a probability of
/// only 1 in 20!.
const COUNT: i64 = 20;

/// Returns `passes` passes of `calls` calls of a body that shuffles its elements.
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
fn a_body_draws_again_for_every_element() {
    for seed in [None, Some(7)] {
        let mut all = orders(shuffled_bodies(3, 4, seed), 1, 0);
        all.extend(orders(shuffled_bodies(3, 4, seed), 1, 1));
        assert_eq!(all.len(), 24);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 24, "expected 24 different orders");
    }
}

#[test]
fn only_seeded_bodies_agree_between_tasks() {
    let of_task = |seed, task| orders(shuffled_bodies(2, 2, seed), task, 3);
    assert_eq!(of_task(Some(7), 1), of_task(Some(7), 2));
    assert_ne!(of_task(None, 1), of_task(None, 2));
}

#[test]
fn fixed_draws_repeat_also_in_parts() {
    let numbers = || Dataset::range(0, COUNT, 1);
    let shuffled = |seed| numbers().shuffle(COUNT as u64, seed).drawn_alike();
    let sampled = Dataset::sample([(1.0, numbers()), (1.0, numbers())], Some(5), false).drawn_alike();
    let random = Dataset::random(Some(3)).drawn_alike().take(COUNT as u64);
    for dataset in [
        shuffled(Some(5)),
        shuffled(None),
        sampled.take(COUNT as u64),
        random,
    ] {
        let mut all = orders(dataset.clone().repeat(Some(2)), 1, 0);
        all.extend(orders(dataset.repeat(Some(2)), 1, 4));
        assert_eq!(all.len(), 4);
        all.dedup();
        assert_eq!(all.len(), 1, "expected the same order in every pass");
    }
    let parts = shuffled(Some(5)).take(8).concatenate(shuffled(Some(5)).skip(8));
    let mut all = orders(parts, 1, 0).remove(0);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), COUNT as usize);
    assert!(
        numbers()
            .drawn_alike()
            .graph()
            .unwrap_err()
            .to_string()
            .contains("shuffle")
    );
}

/// A source of one element.
struct One(Option<Value>);

impl Source for One {
    fn next(&mut self) -> Result<Option<Value>, ExecError> {
        Ok(self.0.take())
    }
}

/// Returns the function `drawing`, which fails at 2 and larger numbers. For smaller numbers, `drawing`
/// returns a source of one element, the number drawn for the call.
fn drawing() -> Arc<Functions> {
    let drawing = |value: Value, site: &Site<'_>| {
        if value[0].as_i64() >= Some(2) {
            let error = ExecError::new(ErrorKind::Caller, "drawing", "expected a number below 2");
            return Err(error.with_traceback("in the middle").into());
        }
        let drawn = Value::from_buf([Tensor::i64(site.draw as i64)]);
        Ok(Box::new(One(Some(drawn))) as Box<dyn Source>)
    };
    Arc::new(Functions::new().with_sited_flat_map("drawing", move |_, _| {
        Ok(PreparedSitedFlatMap {
            output: scalar(),
            call: Arc::new(drawing),
        })
    }))
}

#[test]
fn a_registered_flat_map_draws_by_element() {
    let of = |count, epoch, seed| {
        let dataset = Dataset::range(0, count, 1)
            .flat_map_declared("drawing", Params::default(), scalar())
            .repeat(Some(2));
        let context = ExecContext {
            functions: drawing(),
            epoch,
            seed,
            ..context()
        };
        Executor::open(&dataset.graph().unwrap(), context).unwrap()
    };
    let drawn: Vec<Model> = [0, 1]
        .into_iter()
        .flat_map(|epoch| drain(&mut of(2, epoch, Some(5))))
        .collect();
    let distinct: std::collections::BTreeSet<_> = drawn.iter().collect();
    assert_eq!((drawn.len(), distinct.len()), (8, 8));
    assert_eq!(drain(&mut of(2, 1, Some(5))), drawn[4..]);
    let mut failing = of(3, 0, None);
    let error = std::iter::from_fn(|| failing.next().transpose())
        .find_map(Result::err)
        .unwrap();
    assert_eq!(
        (error.kind(), error.failure().traceback.as_deref()),
        (ErrorKind::Caller, Some("in the middle"))
    );
}

proptest! {
    #![proptest_config(rounds(30))]

    #[test]
    fn a_drawing_body_continues_where_saved(cut in 0usize..120) {
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
