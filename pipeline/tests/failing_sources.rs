//! Tests of failing sources: a registered source that fails at elements, and files that cannot be
//! opened.
//!
//! Depending on the error policy, failures are skipped, retried, or end the dataset. Skipped and
//! retried failures are counted exactly, also across a saved state and with splits.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use millstream_pipeline::exec::{
    ErrorKind, ExecContext, ExecError, Executor, FailureCounts, FinishedSplit, Functions, Source,
    SourceFactory, Split, SplitError, SplitSource, Tensor, Value,
};
use millstream_pipeline::graph::{
    Cardinality, ConstantTensor, Dataset, ErrorPolicy, Params, SourceSignature,
};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::{Model, drain, functions, model_of, number, pool, scalar};

/// The failures of a source: the source fails at numbers that leave a certain remainder.
#[derive(Debug, Clone, Copy)]
struct Fault {
    modulus: u64,
    /// The number of failures per number; `u32::MAX` fails always.
    times: u32,
    kind: ErrorKind,
    /// Whether the source can continue after a failure.
    goes_on: bool,
}

/// The number of failures at each number so far.
type Failed = Arc<Mutex<BTreeMap<u64, u32>>>;

/// A source that yields the numbers from 0 up to `count`.
struct Numbers {
    count: u64,
    fault: Fault,
    failed: Failed,
}

struct Counting {
    positions: Range<u64>,
    fault: Fault,
    failed: Failed,
}

impl SourceFactory for Numbers {
    fn signature(&self, _: &Params) -> Result<SourceSignature, String> {
        Ok(SourceSignature {
            spec: scalar(),
            cardinality: Cardinality::Finite(self.count),
            indexable: true,
        })
    }

    fn open(&self, _: &Params, positions: Range<u64>) -> Result<Box<dyn Source>, ExecError> {
        Ok(Box::new(Counting {
            positions,
            fault: self.fault,
            failed: Arc::clone(&self.failed),
        }))
    }
}

impl Source for Counting {
    fn next(&mut self) -> Result<Option<Value>, ExecError> {
        let Fault { modulus, times, .. } = self.fault;
        let Some(number) = self.positions.clone().next() else {
            return Ok(None);
        };
        if number % modulus == modulus - 1 {
            let mut failed = self.failed.lock().unwrap();
            let failed = failed.entry(number).or_default();
            if times == u32::MAX || *failed < times {
                *failed += 1;
                let error = ExecError::new(self.fault.kind, "numbers", "the test makes this source fail");
                if self.fault.goes_on {
                    self.positions.start += 1;
                    return Err(error.of_element());
                }
                return Err(error);
            }
        }
        self.positions.start += 1;
        Ok(Some(Value::from_buf([Tensor::i64(number as i64)])))
    }
}

const ALWAYS: Fault = Fault {
    modulus: 4,
    times: u32::MAX,
    kind: ErrorKind::Data,
    goes_on: true,
};

fn registered(count: u64, fault: Fault) -> Functions {
    functions().with_source(
        "numbers",
        Numbers {
            count,
            fault,
            failed: Arc::default(),
        },
    )
}

fn dataset(policy: ErrorPolicy) -> Dataset {
    Dataset::registered_source("numbers", Params::none()).on_error(policy)
}

fn open(dataset: &Dataset, functions: Functions) -> Executor {
    let context = ExecContext::new(1, Arc::new(functions), pool());
    Executor::open(&dataset.clone().graph().unwrap(), context).unwrap()
}

fn counts(executor: &Executor, operation: &str) -> (u64, u64) {
    let FailureCounts { skipped, retried } = executor.failures().by_operation[operation];
    (skipped, retried)
}

fn scalars(numbers: impl IntoIterator<Item = i64>) -> Vec<Model> {
    numbers.into_iter().map(Model::Scalar).collect()
}

fn error_of(executor: &mut Executor) -> (usize, ExecError) {
    for before in 0.. {
        match executor.next() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("nothing failed"),
            Err(error) => return (before, error),
        }
    }
    unreachable!()
}

#[test]
fn a_continuing_source_loses_one_element() {
    let mut executor = open(&dataset(ErrorPolicy::SKIP), registered(10, ALWAYS));
    assert_eq!(drain(&mut executor), scalars([0, 1, 2, 4, 5, 6, 8, 9]));
    assert_eq!(counts(&executor, "numbers"), (2, 0));
    let positions = executor
        .failures()
        .recent
        .into_iter()
        .map(|failure| failure.position);
    assert_eq!(positions.collect::<Vec<_>>(), [Some(3), Some(7)]);
    let ends = Fault {
        goes_on: false,
        ..ALWAYS
    };
    let mut executor = open(&dataset(ErrorPolicy::SKIP), registered(10, ends));
    assert_eq!(drain(&mut executor), scalars(0..3));
    assert_eq!(counts(&executor, "numbers"), (1, 0));
    // The error policy never skips errors that the data does not cause.
    for kind in [ErrorKind::Caller, ErrorKind::Peer, ErrorKind::Resource] {
        let mut executor = open(
            &dataset(ErrorPolicy::SKIP),
            registered(10, Fault { kind, ..ends }),
        );
        let (before, error) = error_of(&mut executor);
        assert_eq!((before, error.kind()), (3, kind));
    }
    let mut executor = open(&dataset(ErrorPolicy::RAISE), registered(10, ALWAYS));
    assert_eq!(error_of(&mut executor).0, 3);
    // An operation above the source skips elements at which the source can continue.
    let ignoring = Dataset::registered_source("numbers", Params::none()).ignore_errors(false);
    let mut executor = open(&ignoring, registered(6, ALWAYS));
    assert_eq!(drain(&mut executor), scalars([0, 1, 2, 4, 5]));
}

#[test]
fn a_retried_source_never_failed() {
    for goes_on in [true, false] {
        let fault = Fault {
            times: 2,
            kind: ErrorKind::Peer,
            goes_on,
            ..ALWAYS
        };
        let mut executor = open(&dataset(ErrorPolicy::retry(2)), registered(10, fault));
        assert_eq!(drain(&mut executor), scalars(0..10), "{goes_on}");
        assert_eq!(counts(&executor, "numbers"), (0, 4));
    }
    let fault = Fault {
        goes_on: false,
        ..ALWAYS
    };
    let mut executor = open(&dataset(ErrorPolicy::retry(2)), registered(10, fault));
    assert_eq!(error_of(&mut executor).0, 3, "expected the retries to end");
    assert_eq!(counts(&executor, "numbers"), (0, 2));
    let mut executor = open(&dataset(ErrorPolicy::retry(1).then_skip()), registered(5, ALWAYS));
    assert_eq!(drain(&mut executor), scalars([0, 1, 2, 4]));
}

/// A split provider that leases the splits of one source one after the other.
struct Dealer {
    next: u64,
    count: u64,
}

impl SplitSource for Dealer {
    fn next(&mut self, source: u32, repetition: u64) -> Result<Option<Split>, SplitError> {
        if self.next == self.count || repetition > 0 {
            return Ok(None);
        }
        self.next += 1;
        Ok(Some(Split {
            source,
            repetition,
            index: self.next - 1,
            lease: self.next,
            attempt: 0,
            skipped: false,
            payload: Vec::new(),
            version: None,
        }))
    }
}

#[test]
fn a_failed_split_loses_only_its_rest() {
    // The splits have five positions, and the source fails at positions 3 and 7.
    for (goes_on, expected) in [(true, vec![0, 1, 2, 4, 5, 6, 8, 9]), (false, vec![0, 1, 2, 5, 6])] {
        let fault = Fault { goes_on, ..ALWAYS };
        let context = ExecContext {
            splits: Some(Box::new(Dealer { next: 0, count: 2 })),
            ..ExecContext::new(1, Arc::new(registered(10, fault)), pool())
        };
        let graph = dataset(ErrorPolicy::SKIP).split_size(5).graph().unwrap();
        let mut executor = Executor::open(&graph, context).unwrap();
        assert_eq!(drain(&mut executor), scalars(expected));
        let mut finished: Vec<FinishedSplit> = Vec::new();
        executor.finished_splits(&mut finished);
        assert_eq!(finished.len(), 2);
    }
}

#[test]
fn an_unopenable_file_is_omitted_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(path("a"), "1\n2\n").unwrap();
    std::fs::write(path("c"), "3\n").unwrap();
    let spec = millstream_element::ElementSpec::single(millstream_element::TensorSpec::fixed(
        millstream_element::Dtype::String,
        &[4],
    ));
    let paths = ConstantTensor::items([
        path("a"),
        path("missing"),
        directory.path().display().to_string(),
        path("c"),
    ]);
    let lines = Dataset::tensor_slices(spec.unwrap(), vec![paths])
        .text_lines()
        .parse_int("");
    let mut executor = open(&lines.clone().on_error(ErrorPolicy::SKIP), functions());
    assert_eq!(drain(&mut executor), scalars([1, 2, 3]));
    assert_eq!(counts(&executor, "text_lines"), (2, 0));
    let recent = executor.failures().recent;
    assert!(recent[0].message.contains(&path("missing")), "{recent:?}");
    let (before, error) = error_of(&mut open(&lines, functions()));
    assert_eq!((before, error.kind()), (2, ErrorKind::NotFound));
}

proptest! {
    #![proptest_config(rounds(60))]

    #[test]
    fn only_failures_are_omitted_across_saves(
        count in 0u64..25,
        modulus in 1u64..6,
        retries in 0u32..2,
        ahead: bool,
        cut in 0usize..20,
    ) {
        let policy = ErrorPolicy::retry(retries).then_skip();
        let dataset = if ahead { dataset(policy).prefetch(2) } else { dataset(policy) };
        let dataset = dataset.on_error(policy);
        let fault = Fault { modulus, ..ALWAYS };
        let mut executor = open(&dataset, registered(count, fault));
        let mut found = Vec::new();
        for _ in 0..cut {
            found.extend(executor.next().unwrap().map(|item| model_of(&item.value)));
        }
        let state = executor.save().unwrap();
        let mut restored = open(&dataset, registered(count, fault));
        restored.restore(&state).unwrap();
        found.extend(drain(&mut restored));
        let kept: Vec<i64> = (0..count).filter(|number| number % modulus != modulus - 1).map(|number| number as i64).collect();
        prop_assert_eq!(restored.skipped(), count - kept.len() as u64);
        prop_assert_eq!(found, scalars(kept));
    }
}

#[test]
fn an_endlessly_failing_source_can_be_ended() {
    let fault = Fault { modulus: 1, ..ALWAYS };
    let dataset = dataset(ErrorPolicy::SKIP);
    let context = ExecContext::new(1, Arc::new(registered(u64::MAX, fault)), pool());
    let cancel = context.cancel.clone();
    let mut executor = Executor::open(&dataset.graph().unwrap(), context).unwrap();
    let reader = std::thread::spawn(move || executor.next().map(|item| item.map(|item| number(&item))));
    cancel.cancel();
    assert_eq!(reader.join().unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
}
