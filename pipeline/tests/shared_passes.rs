//! Tests of passes of a service that has other readers: an empty pass does not end a repetition.

use std::sync::Arc;

use millstream_pipeline::exec::{
    ErrorKind, ExecContext, ExecError, Executor, Functions, OpenPass, Source, Tensor, Value,
};
use millstream_pipeline::graph::{Dataset, Params, ServiceReader, SpecField};

use crate::support::{context, number, scalar};

/// A pass of the service, with the elements that this reader receives.
struct Pass {
    left: Vec<i64>,
    is_shared: bool,
}

impl Source for Pass {
    fn next(&mut self) -> Result<Option<Value>, ExecError> {
        Ok(self
            .left
            .pop()
            .map(|number| Value::from_buf([Tensor::i64(number)])))
    }

    fn is_shared(&self) -> bool {
        self.is_shared
    }
}

/// Returns a service in which pass `n` yields the number n if `gets(n)`, and is empty otherwise.
fn service(is_shared: bool, gets: fn(u64) -> bool) -> Functions {
    Functions::new().with_service(move |_, _| -> Result<OpenPass, ExecError> {
        Ok(Box::new(move |pass| {
            let left = if gets(pass) { vec![pass as i64] } else { Vec::new() };
            Ok(Box::new(Pass { left, is_shared }) as Box<dyn Source>)
        }))
    })
}

fn repeated(functions: Functions, count: Option<u64>) -> Executor {
    let reader = ServiceReader {
        params: Params::none(),
        spec: SpecField(scalar()),
        count: None,
        infinite: false,
        resumable: false,
    };
    let context = ExecContext {
        functions: Arc::new(functions),
        ..context()
    };
    let dataset = Dataset::from_service(reader).repeat(count).prefetch(1);
    Executor::open(&dataset.graph().unwrap(), context).unwrap()
}

fn next(executor: &mut Executor) -> Option<i64> {
    executor.next().unwrap().map(|item| number(&item))
}

#[test]
fn endless_repeat_goes_on_after_passes_of_others() {
    let mut executor = repeated(service(true, |pass| pass % 5 == 4), None);
    let found: Vec<_> = (0..3).map(|_| next(&mut executor)).collect();
    assert_eq!(found, [Some(4), Some(9), Some(14)]);
}

#[test]
fn counted_repeat_makes_all_shared_passes() {
    let mut executor = repeated(service(true, |pass| pass == 6), Some(8));
    assert_eq!([next(&mut executor), next(&mut executor)], [Some(6), None]);
}

#[test]
fn endless_repeat_of_nothing_ends_also_if_shared() {
    for is_shared in [false, true] {
        let mut executor = repeated(service(is_shared, |_| false), None);
        assert_eq!(next(&mut executor), None);
    }
}

#[test]
fn unshared_empty_passes_end_repetitions() {
    let mut executor = repeated(service(false, |pass| pass != 1), None);
    assert_eq!([next(&mut executor), next(&mut executor)], [Some(0), None]);
}

#[test]
fn services_that_fail_are_no_ends() {
    let refused = || ExecError::new(ErrorKind::Peer, "service", "refused");
    let failing = Functions::new().with_service(move |_, _| Ok(Box::new(move |_| Err(refused()))));
    let error = repeated(failing, None).next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Peer);
}
