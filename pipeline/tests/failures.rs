//! Tests of errors: errors name the failed operation and the cause, no test panics, and no test hangs.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::bounded;
use millstream_element::{Dtype, ElementSpec, TensorSpec};
use millstream_pipeline::exec::{
    Budget, ErrorKind, ExecContext, Executor, Functions, OpenError, Pool, PreparedMap, Tensor, Value,
};
use millstream_pipeline::graph::{Dataset, Params};

use crate::support::{Model, context, drain, functions, open};

/// The watchdog timeout: ten times longer than any test in this file takes.
const WATCHDOG: Duration = Duration::from_secs(20);

fn with(functions: Functions) -> ExecContext {
    ExecContext::new(1, Arc::new(functions), Arc::new(Pool::new(2).unwrap()))
}

fn faulty() -> Functions {
    functions()
        .with_map("panics", |_, input| {
            let call = |value: Value| {
                if value[0].as_i64() == Some(3) {
                    panic!("no threes")
                } else {
                    Ok(value)
                }
            };
            Ok(PreparedMap {
                output: input.clone(),
                call: Arc::new(call),
            })
        })
        .with_map("lies", |_, input| {
            let call = |_: Value| Ok(Value::from_buf([Tensor::string("not a number")]));
            Ok(PreparedMap {
                output: input.clone(),
                call: Arc::new(call),
            })
        })
        .with_filter("refuses", |_, _| {
            Ok(Arc::new(|_: &Value| Err("no opinion".into())))
        })
}

#[test]
fn a_panic_names_function_and_position() {
    for threads in [1, 2] {
        let graph = Dataset::range(0, 9, 1)
            .map("panics", Params::none())
            .parallel(threads)
            .graph()
            .unwrap();
        let mut executor = Executor::open(&graph, with(faulty())).unwrap();
        for _ in 0..3 {
            executor.next().unwrap().unwrap();
        }
        let error = executor.next().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UserFunction);
        assert_eq!(
            error.to_string(),
            "panics: panicked: no threes; element at position 3; operation 1"
        );
        assert_eq!(
            executor.next().unwrap_err().to_string(),
            error.to_string(),
            "expected the same error after the first one"
        );
    }
}

#[test]
fn a_mixed_position_is_not_shown() {
    let graph = Dataset::range(4, 9, 1)
        .batch(2, false)
        .unbatch()
        .filter("refuses", Params::none())
        .graph()
        .unwrap();
    let error = Executor::open(&graph, with(faulty()))
        .unwrap()
        .next()
        .unwrap_err();
    assert!(error.failure().position.is_some());
    assert_eq!(error.to_string(), "refuses: no opinion; operation 3");
}

#[test]
fn a_lying_function_is_to_blame() {
    let graph = Dataset::range(0, 9, 1)
        .map("lies", Params::none())
        .graph()
        .unwrap();
    let error = Executor::open(&graph, with(faulty()))
        .unwrap()
        .next()
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UserFunction);
    assert!(
        error.to_string().starts_with("lies: expected an element of"),
        "{error}"
    );
}

#[test]
fn scalar_strings_are_equal_whatever_their_maker() {
    let text = || {
        functions().with_map("text", |_, _| {
            let call = |value: Value| {
                let digits = value[0].as_i64().unwrap_or_default().to_string();
                Ok(Value::from_buf([Tensor::strings(
                    Dtype::Bytes,
                    &[],
                    vec![digits.into()],
                )?]))
            };
            let output = ElementSpec::single(TensorSpec::scalar(Dtype::Bytes));
            Ok(PreparedMap {
                output: output.map_err(|error| error.to_string())?,
                call: Arc::new(call),
            })
        })
    };
    let graph = Dataset::range(0, 9, 1)
        .map("text", Params::none())
        .parse_int("")
        .graph()
        .unwrap();
    let found = drain(&mut Executor::open(&graph, with(text())).unwrap());
    assert_eq!(found, (0..9).map(Model::Scalar).collect::<Vec<_>>());
}

#[test]
fn a_failing_predicate_is_named() {
    let graph = Dataset::range(0, 9, 1)
        .filter("refuses", Params::none())
        .prefetch(2)
        .graph()
        .unwrap();
    let error = Executor::open(&graph, with(faulty()))
        .unwrap()
        .next()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "refuses: no opinion; element at position 0; operation 1"
    );
}

#[test]
fn elements_before_an_error_are_handed_out_first() {
    let graph = Dataset::range(0, 9, 1)
        .map("panics", Params::none())
        .parallel(2)
        .prefetch(9)
        .graph()
        .unwrap();
    let mut executor = Executor::open(&graph, with(faulty())).unwrap();
    let before = std::iter::from_fn(|| executor.next().ok().flatten()).count();
    assert_eq!(before, 3);
}

#[test]
fn cancelling_ends_a_stuck_pipeline() {
    let (release, stuck) = bounded::<()>(0);
    let (begun, begins) = bounded::<()>(16);
    let sticky = functions().with_map("sticks", move |_, input| {
        let (stuck, begun) = (stuck.clone(), begun.clone());
        let call = move |value: Value| {
            let _ = begun.try_send(());
            let _ = stuck.recv();
            Ok(value)
        };
        Ok(PreparedMap {
            output: input.clone(),
            call: Arc::new(call),
        })
    });
    let (ended, end) = bounded(1);
    let context = with(sticky);
    let (pool, cancel) = (Arc::clone(&context.pool), context.cancel.clone());
    std::thread::spawn(move || {
        let graph = Dataset::range(0, 9, 1)
            .map("sticks", Params::none())
            .parallel(1 + 1)
            .graph()
            .unwrap();
        let mut executor = Executor::open(&graph, context).unwrap();
        let error = executor.next().unwrap_err();
        drop(executor);
        ended.send(error.kind()).unwrap();
    });
    begins.recv_timeout(WATCHDOG).unwrap();
    cancel.cancel();
    assert_eq!(end.recv_timeout(WATCHDOG), Ok(ErrorKind::Cancelled));
    drop(release);
    drop(pool);
}

#[test]
fn cancelling_ends_a_pipeline_that_yields_nothing() {
    let context = with(functions());
    let cancel = context.cancel.clone();
    let keep_none = Params::encode(&(2i64, 5i64)).unwrap();
    let graph = Dataset::range(0, i64::MAX, 1)
        .filter("keep", keep_none)
        .prefetch(1)
        .graph()
        .unwrap();
    let mut executor = Executor::open(&graph, context).unwrap();
    let (ended, end) = bounded(1);
    std::thread::spawn(move || ended.send(executor.next().unwrap_err().kind()).unwrap());
    cancel.cancel();
    assert_eq!(end.recv_timeout(WATCHDOG), Ok(ErrorKind::Cancelled));
}

#[test]
fn dropping_a_pipeline_ends_its_prefetch_threads() {
    let graph = Dataset::range(0, i64::MAX, 1)
        .prefetch(4)
        .repeat(None)
        .prefetch(4)
        .graph()
        .unwrap();
    let context = context();
    let functions = Arc::downgrade(&context.pool);
    let mut executor = Executor::open(&graph, context).unwrap();
    executor.next().unwrap().unwrap();
    drop(executor);
    assert!(
        functions.upgrade().is_none(),
        "expected no thread to hold the pool any longer"
    );
}

#[test]
fn rows_that_do_not_stack_are_named() {
    let graph = Dataset::range(0, 5, 1)
        .batch(2, false)
        .batch(3, false)
        .graph()
        .unwrap();
    let error = open(&graph).next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Value);
    assert!(
        error
            .to_string()
            .contains("expected row 2 to be i64[2] as row 0 is, found i64[1]"),
        "{error}"
    );
}

#[test]
fn an_oversized_shuffle_fails_and_prefetch_flows() {
    let context = || ExecContext {
        budget: Budget::new(600),
        ..context()
    };
    let graph = Dataset::range(0, 100, 1)
        .take(100)
        .shuffle(100, None)
        .graph()
        .unwrap();
    let error = Executor::open(&graph, context()).unwrap().next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Resource);
    let graph = Dataset::range(0, 100, 1).prefetch(50).graph().unwrap();
    assert_eq!(drain(&mut Executor::open(&graph, context()).unwrap()).len(), 100);
}

#[test]
fn unopenable_graphs_fail_at_opening() {
    let message = |dataset: Dataset| {
        Executor::open(&dataset.graph().unwrap(), context())
            .unwrap_err()
            .to_string()
    };
    assert!(message(Dataset::range(0, 1, 1).map("absent", Params::none())).contains("\"absent\""));
    assert!(message(Dataset::files("/nowhere/at/all/*.tar")).contains("/nowhere/at/all/*.tar"));
    let inner = Dataset::range(0, 1, 1).flat_map(|argument| argument.filter("absent", Params::none()));
    assert!(message(inner).contains("predicate \"absent\""));
    let mut mismatched = context();
    mismatched.plan = Some(Default::default());
    let error = Executor::open(&Dataset::range(0, 1, 1).graph().unwrap(), mismatched).unwrap_err();
    assert!(
        matches!(
            error,
            OpenError::PlanMismatch {
                expected: 1,
                found: 0
            }
        ),
        "{error}"
    );
}
