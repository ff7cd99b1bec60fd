//! Tests of prefetched elements: the pipeline yields ready elements at once, yields the elements before
//! a failure, and respects the byte budget.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, bounded};
use millstream_element::{Dtype, ElementSpec, TensorSpec};
use millstream_pipeline::exec::{
    Budget, ErrorKind, ExecContext, ExecError, Executor, Fill, Functions, PreparedMap, Source, SourceFactory,
    Tensor, Value,
};
use millstream_pipeline::graph::{Cardinality, Dataset, Params, SourceSignature};

use crate::support::{context, functions, number, scalar};

/// The watchdog timeout: ten times longer than any test in this file takes.
const WATCHDOG: Duration = Duration::from_secs(20);

/// A source that counts from 0 in every pass, until the function `end` returns a different outcome.
struct Numbers<E> {
    end: E,
}

struct Reading<E> {
    next: u64,
    end: E,
}

impl<E> SourceFactory for Numbers<E>
where
    E: Fn(u64) -> Result<bool, ExecError> + Clone + Send + Sync + 'static,
{
    fn signature(&self, _: &Params) -> Result<SourceSignature, String> {
        Ok(SourceSignature {
            spec: scalar(),
            cardinality: Cardinality::Unknown,
            indexable: false,
        })
    }

    fn open(&self, _: &Params, _: std::ops::Range<u64>) -> Result<Box<dyn Source>, ExecError> {
        let end = self.end.clone();
        Ok(Box::new(Reading { next: 0, end }))
    }
}

impl<E> Source for Reading<E>
where
    E: Fn(u64) -> Result<bool, ExecError> + Send,
{
    fn next(&mut self) -> Result<Option<Value>, ExecError> {
        if (self.end)(self.next)? {
            return Ok(None);
        }
        self.next += 1;
        Ok(Some(Value::from_buf([Tensor::i64(self.next as i64 - 1)])))
    }
}

fn with_numbers(
    functions: Functions,
    end: impl Fn(u64) -> Result<bool, ExecError> + Clone + Send + Sync + 'static,
) -> Functions {
    functions.with_source("numbers", Numbers { end })
}

fn numbers() -> Dataset {
    Dataset::registered_source("numbers", Params::none())
}

fn add(dataset: Dataset, threads: u32) -> Dataset {
    dataset
        .map("add", Params::encode(&100i64).unwrap())
        .parallel(threads)
}

fn execute(dataset: Dataset, functions: Functions, budget: Budget) -> Executor {
    let context = ExecContext {
        functions: Arc::new(functions),
        budget,
        ..context()
    };
    Executor::open(&dataset.graph().unwrap(), context).unwrap()
}

fn torn(at: u64) -> impl Fn(u64) -> Result<bool, ExecError> + Clone + Send + Sync + 'static {
    move |next| {
        if next == at {
            return Err(ExecError::new(ErrorKind::Data, "numbers", "torn"));
        }
        Ok(false)
    }
}

#[test]
fn results_are_handed_out_while_the_input_waits() {
    for ordered in [true, false] {
        let (release, gate) = bounded::<()>(0);
        let functions = with_numbers(functions(), move |next| {
            if next == 3 {
                let _ = gate.recv();
            }
            Ok(next == 5)
        });
        let dataset = add(numbers(), 8);
        let dataset = if ordered { dataset } else { dataset.unordered() };
        let mut executor = execute(dataset, functions, Budget::default());
        let (hand, handed) = bounded(8);
        let reading = std::thread::spawn(move || {
            while let Some(item) = executor.next().unwrap() {
                hand.send(number(&item)).unwrap();
            }
        });
        let before: BTreeSet<i64> = (0..3).map(|_| handed.recv_timeout(WATCHDOG).unwrap()).collect();
        assert_eq!(before, BTreeSet::from([100, 101, 102]));
        drop(release);
        let after: BTreeSet<i64> = (0..2).map(|_| handed.recv_timeout(WATCHDOG).unwrap()).collect();
        assert_eq!(after, BTreeSet::from([103, 104]));
        reading.join().unwrap();
    }
}

#[test]
fn results_before_a_failing_input_come_first() {
    for ordered in [true, false] {
        for threads in [2, 7] {
            let dataset = add(numbers(), threads);
            let dataset = if ordered { dataset } else { dataset.unordered() };
            let mut executor = execute(dataset, with_numbers(functions(), torn(20)), Budget::default());
            let mut found: Vec<i64> = (0..20)
                .map(|_| number(&executor.next().unwrap().unwrap()))
                .collect();
            assert_eq!(
                executor.next().unwrap_err().to_string(),
                "numbers: torn; operation 0"
            );
            found.sort_unstable();
            assert_eq!(found, (100..120).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_slow_call_delays_nobody_without_order() {
    let (release, gate) = bounded::<()>(0);
    let functions = functions().with_map("slow", move |_, input| {
        let gate = gate.clone();
        let call = move |value: Value| {
            if value[0].as_i64() == Some(0) {
                let _ = gate.recv();
            }
            Ok(value)
        };
        Ok(PreparedMap {
            output: input.clone(),
            call: Arc::new(call),
        })
    });
    let dataset = Dataset::range(0, 100, 1)
        .map("slow", Params::none())
        .parallel(2)
        .unordered();
    let mut executor = execute(dataset, functions, Budget::default());
    let (hand, handed) = bounded(100);
    let reading = std::thread::spawn(move || {
        while let Some(item) = executor.next().unwrap() {
            hand.send(number(&item)).unwrap();
        }
    });
    let others: BTreeSet<i64> = (1..100).map(|_| handed.recv_timeout(WATCHDOG).unwrap()).collect();
    assert_eq!(others, (1..100).collect());
    drop(release);
    assert_eq!(handed.recv_timeout(WATCHDOG), Ok(0));
    reading.join().unwrap();
}

/// A tensor's memory that is counted for as long as it lives.
struct Counted {
    bytes: Vec<u8>,
    alive: Arc<AtomicUsize>,
}

impl Counted {
    fn new(size_bytes: usize, alive: &Arc<AtomicUsize>) -> Counted {
        alive.fetch_add(1, Ordering::Relaxed);
        Counted {
            bytes: vec![0; size_bytes],
            alive: Arc::clone(alive),
        }
    }
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

const PICTURE_BYTES: usize = 100_000;

#[test]
fn waiters_get_elements_without_any_memory() {
    type Ahead = fn(Dataset) -> Dataset;
    let ahead: [(&str, Ahead); 4] = [
        ("prefetch", |dataset| dataset.prefetch(4)),
        ("parallel map", |dataset| add(dataset, 4)),
        ("parallel map in any order", |dataset| add(dataset, 4).unordered()),
        ("parallel interleave", |dataset| {
            dataset.interleave(2, 1, |argument| add(argument, 0)).parallel(2)
        }),
    ];
    for (name, ahead) in ahead {
        // Each operation reads the elements that the operation below prefetched.
        let dataset = ahead(ahead(Dataset::range(0, 50, 1))).prefetch(2);
        let mut executor = execute(dataset, functions(), Budget::new(1));
        let (done, all) = bounded(1);
        std::thread::spawn(move || {
            let mut count = 0;
            while executor.next().unwrap().is_some() {
                count += 1;
            }
            done.send(count).unwrap();
        });
        assert_eq!(all.recv_timeout(WATCHDOG), Ok(50), "{name}");
    }
}

#[test]
fn the_consumers_element_counts_until_the_next() {
    let budget = Budget::new(100 << 10);
    let dataset = Dataset::range(0, 4000, 1).batch(2000, true);
    let mut executor = execute(dataset, functions(), budget.clone());
    assert_eq!(budget.held_bytes(), 0);
    for _ in 0..2 {
        drop(executor.next().unwrap().unwrap());
        assert!(budget.held_bytes() >= 2000 * size_of::<i64>());
    }
    assert!(executor.next().unwrap().is_none());
    assert_eq!(budget.held_bytes(), 0);
}

#[test]
fn growing_results_stay_within_the_budget() {
    let alive = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&alive);
    let functions = functions().with_map("decode", move |_, _| {
        let count = Arc::clone(&count);
        let call = move |_: Value| {
            let pixels = Bytes::from_owner(Counted::new(PICTURE_BYTES, &count));
            Ok(Value::from_buf([Tensor::fixed(
                Dtype::U8,
                &[PICTURE_BYTES as u64],
                pixels,
            )?]))
        };
        let output = TensorSpec::fixed(Dtype::U8, &[PICTURE_BYTES as u64]);
        Ok(PreparedMap {
            output: ElementSpec::single(output).map_err(|error| error.to_string())?,
            call: Arc::new(call),
        })
    });
    for ordered in [true, false] {
        let dataset = Dataset::range(0, 40, 1).map("decode", Params::none()).parallel(4);
        let dataset = if ordered { dataset } else { dataset.unordered() };
        let mut executor = execute(dataset, functions.clone(), Budget::new(2 * PICTURE_BYTES));
        let mut yielded = 0;
        while let Some(item) = executor.next().unwrap() {
            drop(item);
            yielded += 1;
            // `save` waits for the running calls, so that all their results have arrived.
            executor.save().unwrap();
            let alive = alive.load(Ordering::Relaxed);
            // Until the size of a result is known, only as many calls are started as run at once.
            assert!(
                alive <= if yielded < 5 { 4 } else { 3 },
                "{alive} after {yielded}"
            );
        }
        assert_eq!(yielded, 40);
    }
}

/// A deferred crop of a picture to 8 bytes.
struct Crop(Counted);

impl std::fmt::Debug for Crop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Crop")
    }
}

impl Fill for Crop {
    fn fill(&self, destination: &mut [u8]) -> Result<(), ExecError> {
        destination.copy_from_slice(&self.0.bytes[..destination.len()]);
        Ok(())
    }

    fn held_bytes(&self) -> usize {
        self.0.bytes.len()
    }
}

#[test]
fn uncomputed_batches_stay_within_the_budget() {
    let alive = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&alive);
    let functions = functions().with_map("crop", move |_, input| {
        let count = Arc::clone(&count);
        let call = move |value: Value| {
            let mut picture = Counted::new(PICTURE_BYTES, &count);
            picture.bytes[..8].copy_from_slice(value[0].contiguous().unwrap_or_default());
            Ok(Value::from_buf([Tensor::deferred(
                Dtype::I64,
                &[],
                Arc::new(Crop(picture)),
            )?]))
        };
        Ok(PreparedMap {
            output: input.clone(),
            call: Arc::new(call),
        })
    });
    let budget = Budget::new(3 * PICTURE_BYTES);
    let dataset = Dataset::range(0, 100, 1)
        .map("crop", Params::none())
        .batch(50, false);
    let mut executor = execute(dataset, functions, budget.clone());
    for batch in 0..2i64 {
        let item = executor.next().unwrap().unwrap();
        let alive = alive.load(Ordering::Relaxed);
        assert!(alive <= 3, "expected at most 3 pictures in memory, found {alive}");
        let settled = item.value[0].settled().unwrap();
        let expected: Vec<u8> = (50 * batch..50 * (batch + 1))
            .flat_map(i64::to_le_bytes)
            .collect();
        assert_eq!(settled.contiguous().unwrap(), expected);
    }
    assert!(executor.next().unwrap().is_none());
    assert_eq!(budget.held_bytes(), 0);
}

/// Adds a map function that delays the third element until the source has failed.
fn waits_for(functions: Functions, failed: Receiver<()>) -> Functions {
    functions.with_map("wait", move |_, input| {
        let failed = failed.clone();
        let call = move |value: Value| {
            if value[0].as_i64() == Some(2) {
                failed.recv_timeout(WATCHDOG)?;
            }
            Ok(value)
        };
        Ok(PreparedMap {
            output: input.clone(),
            call: Arc::new(call),
        })
    })
}

fn torn_and_told(
    told: Sender<()>,
) -> impl Fn(u64) -> Result<bool, ExecError> + Clone + Send + Sync + 'static {
    let torn = torn(6);
    move |next| torn(next).inspect_err(|_| _ = told.send(()))
}

#[test]
fn an_unseen_failure_ends_with_its_pass() {
    for threads in [0, 8] {
        let (told, failed) = bounded(2);
        let functions = waits_for(with_numbers(functions(), torn_and_told(told)), failed);
        let ahead = match threads {
            0 => numbers().prefetch(8),
            threads => add(numbers(), threads).map("add", Params::encode(&-100i64).unwrap()),
        };
        let dataset = ahead.map("wait", Params::none()).take(3).repeat(Some(2));
        let mut executor = execute(dataset, functions, Budget::default());
        let found: Vec<i64> = (0..6)
            .map(|_| number(&executor.next().unwrap().unwrap()))
            .collect();
        assert_eq!(found, [0, 1, 2, 0, 1, 2]);
        assert!(executor.next().unwrap().is_none());
    }
}

#[test]
fn a_failure_ahead_is_reported_when_saved() {
    let (told, failed) = bounded(2);
    let functions = waits_for(with_numbers(functions(), torn_and_told(told)), failed);
    let dataset = numbers().prefetch(8).map("wait", Params::none());
    let mut executor = execute(dataset, functions, Budget::default());
    for expected in 0..3 {
        assert_eq!(number(&executor.next().unwrap().unwrap()), expected);
    }
    let error = executor.save().unwrap_err();
    assert!(error.to_string().contains("torn"), "{error}");
    for expected in 3..6 {
        assert_eq!(number(&executor.next().unwrap().unwrap()), expected);
    }
    assert_eq!(
        executor.next().unwrap_err().to_string(),
        "numbers: torn; operation 0"
    );
}

#[test]
fn many_passes_over_a_parallel_map_lose_nothing() {
    let passes = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&passes);
    let functions = with_numbers(functions(), move |next| {
        count.fetch_add(u64::from(next == 0), Ordering::Relaxed);
        Ok(next == 3)
    });
    let dataset = add(numbers(), 3).repeat(Some(200));
    let mut executor = execute(dataset, functions, Budget::default());
    let mut found = Vec::new();
    while let Some(item) = executor.next().unwrap() {
        found.push(number(&item));
    }
    assert_eq!(found, [100, 101, 102].repeat(200));
    assert_eq!(passes.load(Ordering::Relaxed), 200);
}
