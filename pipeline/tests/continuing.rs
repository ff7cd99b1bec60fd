//! Tests of executions that continue after the failure of one element.

use std::sync::Arc;

use millstream_pipeline::exec::{BoxError, ExecContext, Executor, Pool, PreparedMap, Value};
use millstream_pipeline::graph::{Dataset, Params};

use crate::support::functions;

/// Returns the numbers from 0 to `count`. Number 1 fails.
fn failing(count: i64) -> Dataset {
    Dataset::range(0, count, 1).map("no ones", Params::none())
}

/// Returns the components of each element, and `None` for each failure.
fn outcomes(dataset: Dataset, continues: bool) -> Vec<Option<Vec<i64>>> {
    let refusing = |value: Value| -> Result<Value, BoxError> {
        match value[0].as_i64() {
            Some(1) => Err("no ones".into()),
            _ => Ok(value),
        }
    };
    let functions = functions().with_map("no ones", move |_, input| {
        Ok(PreparedMap {
            output: input.clone(),
            call: Arc::new(refusing),
        })
    });
    let pool = Arc::new(Pool::new(2).unwrap());
    let context = ExecContext {
        continues,
        ..ExecContext::new(1, Arc::new(functions), pool)
    };
    let mut executor = Executor::open(&dataset.graph().unwrap(), context).unwrap();
    let mut found = Vec::new();
    while found.len() < 9 {
        match executor.next() {
            Ok(None) => break,
            Ok(Some(item)) => found.push(Some(
                item.value.iter().map(|tensor| tensor.as_i64().unwrap()).collect(),
            )),
            Err(_) => found.push(None),
        }
    }
    found
}

#[test]
fn elements_follow_a_failure_in_every_operation() {
    let numbers =
        |found: &[Option<i64>]| -> Vec<_> { found.iter().map(|one| one.map(|one| vec![one])).collect() };
    let after = [Some(0), None, Some(2), Some(3)];
    assert_eq!(outcomes(failing(4), true), numbers(&after));
    assert_eq!(outcomes(failing(4).prefetch(2), true), numbers(&after));
    assert_eq!(outcomes(failing(4).parallel(2), true), numbers(&after));
    assert_eq!(outcomes(failing(4).take(2), true), numbers(&after[..3]));
    assert_eq!(
        outcomes(failing(2).repeat(Some(2)), true),
        numbers(&[Some(0), None, Some(0), None])
    );
}

#[test]
fn a_failed_zip_row_moves_every_input() {
    let rows = [Some(vec![0, 10]), None, Some(vec![2, 12])];
    assert_eq!(
        outcomes(Dataset::zip([failing(3), Dataset::range(10, 14, 1)]), true),
        rows
    );
    let swapped = rows.map(|row| row.map(|row| row.into_iter().rev().collect()));
    assert_eq!(
        outcomes(Dataset::zip([Dataset::range(10, 13, 1), failing(4)]), true),
        swapped
    );
}

#[test]
fn a_failed_element_has_a_number() {
    assert_eq!(
        outcomes(failing(3).enumerate(5), true),
        [Some(vec![5, 0]), None, Some(vec![7, 2])]
    );
}

#[test]
fn a_failure_stays_unless_the_execution_continues() {
    let found = outcomes(failing(4), false);
    assert_eq!(found[0], Some(vec![0]));
    assert_eq!(found[1..], vec![None; 8]);
}
