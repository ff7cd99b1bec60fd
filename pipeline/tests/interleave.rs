//! Tests of interleaved datasets that separate threads read ahead.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, bounded};
use millstream_pipeline::exec::{
    BoxError, Budget, ErrorKind, ExecContext, Executor, Functions, PreparedMap, Value,
};
use millstream_pipeline::graph::{AUTO, Dataset, Options, Params, ShardBy, Share};
use millstream_testkit::rounds;
use proptest::prelude::*;

use crate::support::{Model, context, drain, functions, number, pool};

/// The watchdog timeout: ten times longer than any test in this file takes.
const WATCHDOG: Duration = Duration::from_secs(20);

/// Returns the map function `gate`, which forwards numbers. The number 0 waits until `opened` receives
/// a message or is disconnected.
fn gated(opened: Receiver<()>) -> Functions {
    functions().with_map("gate", move |_, input| {
        let opened = opened.clone();
        let call = move |value: Value| {
            if value[0].as_i64() == Some(0) {
                let _ = opened.recv_timeout(WATCHDOG);
            }
            Ok(value)
        };
        Ok(PreparedMap {
            output: input.clone(),
            call: Arc::new(call),
        })
    })
}

/// Returns a dataset that interleaves ten datasets of the numbers 0 to 9. The dataset of 0 waits for
/// the gate.
fn ten() -> Dataset {
    Dataset::range(0, 10, 1)
        .interleave(10, 1, |argument| argument.map("gate", Params::none()))
        .parallel(10)
}

fn unordered() -> Options {
    Options {
        deterministic: Some(false),
        ..Options::default()
    }
}

fn open(dataset: Dataset, functions: Functions) -> Executor {
    let context = ExecContext::new(1, Arc::new(functions), pool());
    Executor::open(&dataset.graph().unwrap(), context).unwrap()
}

#[test]
fn unordered_datasets_do_not_wait() {
    let by_itself = ten().unordered();
    let by_options = ten().with_options(unordered());
    let replaced = ten()
        .with_options(Options {
            deterministic: Some(true),
            ..Options::default()
        })
        .with_options(unordered())
        .with_options(Options::default());
    for dataset in [by_itself, by_options, replaced] {
        let (open_gate, opened) = bounded(1);
        let mut executor = open(dataset, gated(opened));
        let mut found: Vec<i64> = (0..9)
            .map(|_| number(&executor.next().unwrap().unwrap()))
            .collect();
        found.sort_unstable();
        assert_eq!(
            found,
            (1..10).collect::<Vec<_>>(),
            "expected all numbers except the one that waits"
        );
        open_gate.send(()).unwrap();
        assert_eq!(drain(&mut executor), [Model::Scalar(0)]);
    }
}

#[test]
fn ordered_operations_ignore_the_options() {
    let (open_gate, opened) = bounded(1);
    let mut executor = open(ten().ordered().with_options(unordered()), gated(opened));
    open_gate.send(()).unwrap();
    let expected: Vec<Model> = (0..10).map(Model::Scalar).collect();
    assert_eq!(drain(&mut executor), expected);
}

#[test]
fn options_hold_for_maps_too() {
    let (open_gate, opened) = bounded(1);
    let dataset = Dataset::range(0, 10, 1).map("gate", Params::none()).parallel(2);
    let mut executor = open(dataset.with_options(unordered()), gated(opened));
    assert_eq!(
        number(&executor.next().unwrap().unwrap()),
        1,
        "expected 1 first, because 0 waits for the gate"
    );
    open_gate.send(()).unwrap();
    assert_eq!(drain(&mut executor).len(), 9);
}

#[test]
fn shares_are_ordered_below_their_shard() {
    let share = Share {
        count: 2,
        index: 0,
        seed: 0,
    };
    let dataset = Dataset::range(0, 10, 1)
        .interleave(10, 1, |argument| argument.map("last_first", Params::none()))
        .parallel(10);
    let graph = dataset.with_options(unordered()).graph().unwrap();
    let divided = graph.sharded(ShardBy::Elements, share).unwrap();
    let (opens, gate) = bounded(1);
    // The element 0 is ready only after the element 9, but is still yielded first.
    let last_first = functions().with_map("last_first", move |_, input| {
        let (opens, gate) = (opens.clone(), gate.clone());
        let call = move |value: Value| {
            match value[0].as_i64() {
                Some(0) => gate.recv_timeout(WATCHDOG)?,
                Some(9) => opens.send(())?,
                _ => {}
            }
            Ok(value)
        };
        Ok(PreparedMap {
            output: input.clone(),
            call: Arc::new(call),
        })
    });
    let context = ExecContext::new(1, Arc::new(last_first), pool());
    let mut executor = Executor::open(&divided, context).unwrap();
    assert_eq!(drain(&mut executor), [0, 2, 4, 6, 8].map(Model::Scalar));
}

#[test]
fn a_failing_dataset_ends_all_in_turn() {
    let failing = functions().with_map("no_threes", |_, input| {
        let call = |value: Value| match value[0].as_i64() {
            Some(3) => Err(BoxError::from("a three")),
            _ => Ok(value),
        };
        Ok(PreparedMap {
            output: input.clone(),
            call: Arc::new(call),
        })
    });
    let dataset = Dataset::range(0, 10, 1)
        .interleave(4, 1, |argument| argument.map("no_threes", Params::none()))
        .parallel(AUTO);
    let mut executor = open(dataset, failing);
    for expected in 0..3 {
        assert_eq!(number(&executor.next().unwrap().unwrap()), expected);
    }
    let error = executor.next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UserFunction);
    assert!(error.to_string().contains("a three"), "{error}");
}

#[test]
fn a_cancelled_interleave_ends_while_its_datasets_wait() {
    let (_open_gate, opened) = bounded(1);
    let dataset = ten();
    let context = ExecContext::new(1, Arc::new(gated(opened)), pool());
    let cancel = context.cancel.clone();
    let mut executor = Executor::open(&dataset.graph().unwrap(), context).unwrap();
    let (done, ended) = bounded(1);
    std::thread::spawn(move || done.send(executor.next().map(drop)));
    cancel.cancel();
    let error = ended.recv_timeout(WATCHDOG).unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

/// Returns the map function `slow_storage`, which forwards numbers after a delay, like remote storage.
/// `most` records the maximum number of concurrent calls.
fn slow_storage(most: &Arc<AtomicUsize>) -> Functions {
    let (most, now) = (Arc::clone(most), Arc::new(AtomicUsize::new(0)));
    functions().with_map("slow_storage", move |_, input| {
        let (most, now) = (Arc::clone(&most), Arc::clone(&now));
        let call = move |value: Value| {
            most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(5));
            now.fetch_sub(1, Ordering::Relaxed);
            Ok(value)
        };
        Ok(PreparedMap {
            output: input.clone(),
            call: Arc::new(call),
        })
    })
}

#[test]
fn auto_prefetches_datasets_within_memory() {
    let endless = |length: i64| {
        Dataset::range(0, length, 1)
            .interleave(length as u64, 1, |argument| {
                argument.repeat(None).map("slow_storage", Params::none())
            })
            .parallel(AUTO)
    };
    let most = Arc::new(AtomicUsize::new(0));
    let mut executor = open(endless(64), slow_storage(&most));
    let begun = Instant::now();
    while most.load(Ordering::Relaxed) <= 16 {
        executor.next().unwrap().unwrap();
        assert!(
            begun.elapsed() < WATCHDOG,
            "expected more than 16 datasets to be read ahead"
        );
    }
    let most = Arc::new(AtomicUsize::new(0));
    // The budget has room for eight elements of each of 20 datasets.
    let context = ExecContext {
        budget: Budget::new(20 * 8 * 8),
        ..ExecContext::new(1, Arc::new(slow_storage(&most)), pool())
    };
    let mut executor = Executor::open(&endless(64).graph().unwrap(), context).unwrap();
    for _ in 0..3000 {
        executor.next().unwrap().unwrap();
    }
    let most = most.load(Ordering::Relaxed);
    assert!(most <= 21, "expected at most 21 concurrent calls, found {most}");
}

proptest! {
    #![proptest_config(rounds(40))]

    #[test]
    fn an_unordered_interleave_saves_every_element(
        datasets in 0i64..20,
        length in 1u64..6,
        block in 1u64..4,
        threads in 0u32..5,
        cut in 0usize..60,
    ) {
        let dataset = Dataset::range(0, datasets, 1)
            .interleave(length, block, |argument| argument.repeat(Some(3)))
            .parallel(threads)
            .unordered();
        let graph = dataset.graph().unwrap();
        let mut executor = Executor::open(&graph, context()).unwrap();
        let mut found = Vec::new();
        for _ in 0..cut {
            found.extend(executor.next().unwrap().map(|item| number(&item)));
        }
        let state = executor.save().unwrap();
        let mut restored = Executor::open(&graph, context()).unwrap();
        restored.restore(&state).unwrap();
        while let Some(item) = restored.next().unwrap() {
            found.push(number(&item));
        }
        found.sort_unstable();
        prop_assert_eq!(found, (0..3 * datasets).map(|number| number / 3).collect::<Vec<_>>());
    }
}
