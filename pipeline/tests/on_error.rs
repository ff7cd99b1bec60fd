//! Tests of failing elements: failures are skipped, retried, or end the dataset. Exactly the failing
//! elements are affected and counted, also across a saved state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use millstream_pipeline::exec::{
    ErrorKind, ExecContext, Executor, FailureCounts, Functions, PreparedMap, Source, Tensor, Value,
};
use millstream_pipeline::graph::{Cardinality, Dataset, ErrorPolicy, Params, col};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::{Model, drain, functions, model_of, number, pool, scalar};

fn modulus(modulus: i64) -> Params {
    Params::encode(&modulus).unwrap()
}

/// Returns the functions of these tests:
/// - `refuses`: a map that fails at multiples of its parameter.
/// - `choosy`: a predicate that fails at multiples of its parameter.
/// - `stumbles`: a map that panics in the first two of every three calls with a multiple of its
///   parameter.
/// - `grows`: a map that returns `i64[n]` for the number n.
/// - `breaks`: a function that returns a source that yields a number twice, and then fails if the
///   number is odd.
fn faulty() -> Functions {
    let fails = |value: &Value, modulus: i64| value[0].as_i64().is_some_and(|number| number % modulus == 0);
    functions()
        .with_map("refuses", move |params, input| {
            let modulus: i64 = params.decode()?;
            let call = move |value: Value| {
                if fails(&value, modulus) {
                    return Err("a multiple".into());
                }
                Ok(value)
            };
            Ok(PreparedMap {
                output: input.clone(),
                call: Arc::new(call),
            })
        })
        .with_map("stumbles", move |params, input| {
            let modulus: i64 = params.decode()?;
            let stumbles = AtomicU32::new(0);
            let call = move |value: Value| {
                if fails(&value, modulus) && stumbles.fetch_add(1, Ordering::Relaxed) % 3 < 2 {
                    panic!("the test makes this call fail");
                }
                Ok(value)
            };
            Ok(PreparedMap {
                output: input.clone(),
                call: Arc::new(call),
            })
        })
        .with_filter("choosy", move |params, _| {
            let modulus: i64 = params.decode()?;
            Ok(Arc::new(move |value: &Value| {
                if fails(value, modulus) {
                    Err("no opinion".into())
                } else {
                    Ok(true)
                }
            }))
        })
        .with_flat_map("breaks", |_, _| {
            Ok(millstream_pipeline::exec::PreparedFlatMap {
                output: scalar(),
                call: Arc::new(|value: Value, _: &_| {
                    Ok(Box::new(Breaks {
                        of: value[0].as_i64().unwrap_or(0),
                        read: 0,
                    }) as Box<dyn Source>)
                }),
            })
        })
}

/// A source that yields its number twice, and then fails if the number is odd.
struct Breaks {
    of: i64,
    read: u64,
}

impl Source for Breaks {
    fn next(&mut self) -> Result<Option<Value>, millstream_pipeline::exec::ExecError> {
        self.read += 1;
        match self.read {
            1 | 2 => Ok(Some(Value::from_buf([Tensor::i64(self.of)]))),
            _ if self.of % 2 == 1 => Err(millstream_pipeline::exec::ExecError::new(
                ErrorKind::Data,
                "breaks",
                "it is odd",
            )),
            _ => Ok(None),
        }
    }

    fn advance(&mut self, count: u64) -> Result<(), millstream_pipeline::exec::ExecError> {
        self.read = count;
        Ok(())
    }
}

fn open(dataset: &Dataset) -> Executor {
    let context = ExecContext::new(1, Arc::new(faulty()), pool());
    Executor::open(&dataset.clone().graph().unwrap(), context).unwrap()
}

fn numbers(dataset: &Dataset) -> Vec<i64> {
    let mut executor = open(dataset);
    let mut all = Vec::new();
    while let Some(item) = executor.next().unwrap() {
        all.push(number(&item));
    }
    all
}

fn counts(executor: &Executor) -> BTreeMap<String, (u64, u64)> {
    let by_operation = executor.failures().by_operation.into_iter();
    by_operation
        .map(|(name, FailureCounts { skipped, retried })| (name, (skipped, retried)))
        .collect()
}

fn error(dataset: &Dataset) -> millstream_pipeline::exec::ExecError {
    let mut executor = open(dataset);
    loop {
        match executor.next() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("nothing failed"),
            Err(error) => return error,
        }
    }
}

#[test]
fn exactly_the_failing_elements_are_omitted() {
    let expected: Vec<i64> = (0..20).filter(|number| number % 3 != 0).collect();
    for threads in [1, 3] {
        let dataset = Dataset::range(0, 20, 1)
            .map("refuses", modulus(3))
            .parallel(threads)
            .on_error(ErrorPolicy::SKIP);
        assert_eq!(numbers(&dataset), expected);
        let mut executor = open(&dataset);
        drain(&mut executor);
        assert_eq!(
            counts(&executor),
            BTreeMap::from([("refuses".to_owned(), (7, 0))])
        );
        assert_eq!(executor.skipped(), 7);
        let recent = executor.failures().recent;
        assert_eq!(recent.len(), 7);
        assert!(recent.iter().any(|failure| failure.position == Some(18)));
    }
    let dataset = Dataset::range(0, 20, 1)
        .filter("choosy", modulus(3))
        .on_error(ErrorPolicy::SKIP);
    assert_eq!(numbers(&dataset), expected);
    let dataset = Dataset::range(1, 20, 1)
        .take_while("choosy", modulus(3))
        .on_error(ErrorPolicy::SKIP);
    assert_eq!(numbers(&dataset), expected);
}

#[test]
fn successful_retries_leave_no_trace() {
    for threads in [1, 3] {
        let stumbling = |policy| {
            Dataset::range(0, 12, 1)
                .map("stumbles", modulus(4))
                .parallel(threads)
                .on_error(policy)
        };
        let dataset = stumbling(ErrorPolicy::retry(9));
        let mut executor = open(&dataset);
        assert_eq!(
            drain(&mut executor),
            (0..12).map(Model::Scalar).collect::<Vec<_>>()
        );
        assert_eq!(counts(&executor)["stumbles"], (0, 6));
    }
    let refusing = |policy| {
        Dataset::range(1, 9, 1)
            .map("refuses", modulus(4))
            .on_error(policy)
    };
    let raised = error(&refusing(ErrorPolicy::retry(2)));
    assert_eq!(
        raised.to_string(),
        "refuses: a multiple; element at position 3; operation 1"
    );
    let skipping = refusing(ErrorPolicy::retry(2).then_skip());
    let mut executor = open(&skipping);
    drain(&mut executor);
    assert_eq!(counts(&executor)["refuses"], (2, 4));
}

#[test]
fn the_nearest_policy_further_up_holds() {
    let inner = Dataset::range(1, 10, 1)
        .map("refuses", modulus(3))
        .on_error(ErrorPolicy::SKIP);
    // A policy does not apply to operations above its own place.
    assert_eq!(
        error(&inner.clone().map("refuses", modulus(4)))
            .failure()
            .position,
        Some(3)
    );
    let both = inner.map("refuses", modulus(4)).on_error(ErrorPolicy::RAISE);
    assert_eq!(error(&both).failure().position, Some(3));
    // A function's body uses the policy of the calling operation, unless the body has a policy of its
    // own.
    let within = |policy: Option<ErrorPolicy>| {
        Dataset::range(1, 10, 1)
            .flat_map(|argument| {
                let refusing = argument.map("refuses", modulus(3));
                match policy {
                    Some(policy) => refusing.on_error(policy),
                    None => refusing,
                }
            })
            .on_error(ErrorPolicy::SKIP)
    };
    assert_eq!(numbers(&within(None)), [1, 2, 4, 5, 7, 8]);
    assert_eq!(
        numbers(&within(Some(ErrorPolicy::RAISE))),
        [1, 2, 4, 5, 7, 8],
        "expected the elements of the other datasets"
    );
}

#[test]
fn unfit_batches_and_datasets_are_omitted() {
    // `ragged` stacks batches of 2, 2 and 1 rows: both stacks succeed. `uneven` has batches of 2, 2, 2
    // and 1 rows: the last two do not stack.
    let ragged = Dataset::range(0, 5, 1)
        .batch(2, false)
        .batch(2, false)
        .on_error(ErrorPolicy::SKIP);
    let mut executor = open(&ragged);
    assert_eq!(drain(&mut executor).len(), 2);
    let uneven = Dataset::range(0, 7, 1)
        .batch(2, false)
        .batch(2, false)
        .on_error(ErrorPolicy::SKIP);
    let mut executor = open(&uneven);
    assert_eq!(drain(&mut executor).len(), 1);
    assert_eq!(counts(&executor)["batch"], (1, 0));
    for threads in [1, 2] {
        let broken = Dataset::range(0, 4, 1)
            .interleave_registered(2, 1, "breaks", Params::none())
            .parallel(threads)
            .on_error(ErrorPolicy::SKIP);
        let mut found = numbers(&broken);
        found.sort_unstable();
        assert_eq!(found, [0, 0, 1, 1, 2, 2, 3, 3]);
        let mut executor = open(&broken);
        drain(&mut executor);
        assert_eq!(counts(&executor)["breaks"], (2, 0));
    }
}

#[test]
fn unfit_rows_of_two_batches_are_omitted() {
    // Each batch has one row. The numbers of columns are 1, 1, 2, 2, 3 and 3.
    let rows = Dataset::range(2, 8, 1)
        .map_expr(col("").floor_div(2))
        .map("up_to", Params::none())
        .batch(1, false);
    let skipping = |rows: Dataset| rows.rebatch(2, false).on_error(ErrorPolicy::SKIP);
    let shapes = |dataset: &Dataset| -> Vec<Vec<u64>> {
        let mut executor = open(dataset);
        let next = || executor.next().unwrap().map(|item| item.value[0].dims().to_vec());
        std::iter::repeat_with(next).map_while(|shape| shape).collect()
    };
    assert_eq!(shapes(&skipping(rows.clone())), [[2, 1], [2, 2], [2, 3]]);
    let out_of_step = rows.skip(1);
    assert!(
        error(&out_of_step.clone().rebatch(2, false))
            .to_string()
            .contains("two batches")
    );
    assert_eq!(
        shapes(&skipping(out_of_step)),
        [[1, 3]],
        "expected the batch that consists of a single row"
    );
}

#[test]
fn groups_lose_the_elements_whose_key_fails() {
    let grouped = Dataset::range(1, 10, 1)
        .group_by_window(
            |element| element.map("refuses", modulus(3)).map("key", modulus(1)),
            2,
            |window| window.batch(2, false),
        )
        .on_error(ErrorPolicy::SKIP);
    let mut executor = open(&grouped);
    let kept: Vec<Model> = drain(&mut executor)
        .into_iter()
        .flat_map(|rows| match rows {
            Model::Rows(rows) => rows,
            Model::Scalar(_) => panic!("expected rows in a batch"),
        })
        .collect();
    assert_eq!(kept, [1, 2, 4, 5, 7, 8].map(Model::Scalar));
    assert_eq!(counts(&executor)["refuses"], (3, 0));
}

#[test]
fn a_limit_is_no_fault_of_the_data() {
    let context = ExecContext {
        budget: millstream_pipeline::exec::Budget::new(600),
        ..ExecContext::new(1, Arc::new(faulty()), pool())
    };
    let dataset = Dataset::range(0, 100, 1)
        .take(100)
        .shuffle(100, None)
        .on_error(ErrorPolicy::SKIP);
    let mut executor = Executor::open(&dataset.graph().unwrap(), context).unwrap();
    assert_eq!(executor.next().unwrap_err().kind(), ErrorKind::Resource);
}

#[test]
fn omissible_elements_are_not_counted_beforehand() {
    let dataset = Dataset::range(0, 10, 1).map("refuses", modulus(3));
    let cardinality = |dataset: Dataset| dataset.graph().unwrap().facts(&faulty()).unwrap().cardinality;
    assert_eq!(cardinality(dataset.clone()), Cardinality::Finite(10));
    assert_eq!(
        cardinality(dataset.clone().on_error(ErrorPolicy::retry(3))),
        Cardinality::Finite(10)
    );
    assert_eq!(
        cardinality(dataset.clone().on_error(ErrorPolicy::SKIP)),
        Cardinality::Unknown
    );
    let refused = dataset.on_error(ErrorPolicy::retry(101)).graph().unwrap_err();
    assert!(
        refused.to_string().contains("101 retries, the limit is 100"),
        "{refused}"
    );
}

#[test]
fn a_failure_names_its_functions_position() {
    let dataset = Dataset::range(1, 9, 1)
        .take(5)
        .flat_map(|argument| argument.repeat(Some(2)).map("refuses", modulus(4)))
        .prefetch(2);
    let raised = error(&dataset);
    assert_eq!(raised.failure().place.as_slice(), [2, 2]);
    assert!(raised.to_string().ends_with("; operation 2.2"), "{raised}");
}

proptest! {
    #![proptest_config(rounds(60))]

    #[test]
    fn omissions_survive_a_save(
        count in 0i64..30,
        modulo in 1i64..5,
        threads in 1u32..4,
        cut in 0usize..20,
    ) {
        let dataset = Dataset::range(0, count, 1)
            .map("refuses", modulus(modulo))
            .parallel(threads)
            .prefetch(2)
            .on_error(ErrorPolicy::SKIP);
        let mut executor = open(&dataset);
        let mut found = Vec::new();
        for _ in 0..cut {
            found.extend(executor.next().unwrap().map(|item| model_of(&item.value)));
        }
        let state = executor.save().unwrap();
        let mut restored = open(&dataset);
        restored.restore(&state).unwrap();
        found.extend(drain(&mut restored));
        let expected: Vec<Model> = (0..count).filter(|number| number % modulo != 0).map(Model::Scalar).collect();
        prop_assert_eq!(restored.skipped(), (count.unsigned_abs() as usize - expected.len()) as u64);
        prop_assert_eq!(found, expected);
    }
}
