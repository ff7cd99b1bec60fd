//! Tests of the memory of a pipeline that prefetches for a slow consumer, as the kernel measures it.
//!
//! The peak memory, minus the memory before the run, must not exceed 1.25 times the byte budget. Each
//! case runs in a process of its own.
//!
//! The consumer is as slow as possible: it takes the next element only when everything that may be
//! prefetched has been prefetched.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use millstream_element::{Dtype, ElementSpec, TensorSpec};
use millstream_pipeline::exec::{Budget, ExecContext, Executor, Functions, Pool, PreparedMap, Tensor, Value};
use millstream_pipeline::graph::{AUTO, Dataset, Params};

/// The environment variable with the case that a child process runs and its budget in MiB, separated by
/// a colon.
const CASE: &str = "MILLSTREAM_MEMORY_CASE";
/// The environment variable that makes the allocator return freed memory to the system at once.
const KEEPS_NOTHING: (&str, &str) = ("MIMALLOC_PURGE_DELAY", "0");
/// The case whose elements are a quarter of the budget each.
const HUGE: &str = "huge elements";
/// The number of elements that the consumer takes.
const TAKEN: usize = 24;

/// The cases, each with the number of its elements that fit into the budget. The allocator keeps freed
/// memory for a moment, which matters for huge elements: their case runs with [`KEEPS_NOTHING`].
const CASES: &[(&str, usize)] = &[
    ("slow consumer", 64),
    ("large elements", 8),
    (HUGE, 4),
    ("wide interleave", 64),
    ("wide unordered interleave", 64),
    ("infinite source", 64),
    ("a buffer that is kept", 64),
];

#[test]
fn a_pipeline_stays_within_its_budget() {
    match std::env::var(CASE) {
        Ok(case) => measured(&case),
        Err(_) => hold_to_budget(128),
    }
}

#[test]
#[ignore = "takes gigabytes"]
fn a_pipeline_stays_within_a_large_budget() {
    hold_to_budget(1024);
}

/// Runs each case with a budget of `budget_mib` MiB.
#[expect(clippy::print_stderr, reason = "the figures are printed for developers")]
fn hold_to_budget(budget_mib: usize) {
    let program = std::env::current_exe().unwrap();
    let mut over = Vec::new();
    for (case, _) in CASES {
        let mut run = Command::new(&program);
        if *case == HUGE {
            run.env(KEEPS_NOTHING.0, KEEPS_NOTHING.1);
        }
        let run = run
            .args(["--exact", "memory::a_pipeline_stays_within_its_budget"])
            .arg("--nocapture")
            .env(CASE, format!("{case}:{budget_mib}"))
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&run.stdout);
        assert!(
            run.status.success(),
            "{output}{}",
            String::from_utf8_lossy(&run.stderr)
        );
        let figure = output.lines().find_map(|line| line.split("peak_kib=").nth(1));
        let peak_kib: usize = figure.unwrap().trim().parse().unwrap();
        let share = peak_kib as f64 / (budget_mib * 1024) as f64;
        eprintln!("{case}: {} MiB, {share:.2} of the budget", peak_kib >> 10);
        if share > 1.25 {
            over.push(format!("{case}: {share:.2}"));
        }
    }
    assert!(
        over.is_empty(),
        "expected at most 1.25 times the budget, exceeded by {over:?}"
    );
}

/// Runs one case and prints the peak memory.
#[expect(
    clippy::print_stdout,
    reason = "the child reports its result to the parent on standard output"
)]
fn measured(case: &str) {
    let (case, budget_mib) = case.split_once(':').unwrap();
    let budget_bytes = budget_mib.parse::<usize>().unwrap() << 20;
    let (_, fitting) = CASES.iter().find(|(name, _)| *name == case).unwrap();
    let made = Arc::new(AtomicUsize::new(0));
    let budget = Budget::new(budget_bytes);
    let context = ExecContext {
        budget: budget.clone(),
        ..ExecContext::new(
            1,
            Arc::new(filling(budget_bytes / fitting, &made)),
            Arc::new(Pool::new(8).unwrap()),
        )
    };
    let graph = dataset(case).graph().unwrap();
    let idle_kib = status_kib("VmRSS");
    let mut executor = Executor::open(&graph, context).unwrap();
    for _ in 0..TAKEN {
        executor.next().unwrap().unwrap();
        let progress = || (made.load(Ordering::Relaxed), budget.held_bytes());
        come_to_rest(progress);
    }
    println!("\npeak_kib={}", status_kib("VmHWM") - idle_kib);
}

fn dataset(case: &str) -> Dataset {
    let numbers = || Dataset::counter(0, 1);
    let fill = |dataset: Dataset| dataset.map("fill", Params::none());
    // Each of the interleaved datasets is endless.
    let wide = || {
        Dataset::range(0, 10_000, 1)
            .interleave(256, 1, |argument| {
                argument.map("fill", Params::none()).repeat(None)
            })
            .parallel(256)
    };
    match case {
        "slow consumer" => fill(numbers()).parallel(8).prefetch(4096),
        "large elements" | HUGE => fill(fill(numbers()).parallel(8)).parallel(AUTO).prefetch(16),
        "wide interleave" => wide().prefetch(64),
        "wide unordered interleave" => wide().unordered().prefetch(64),
        "infinite source" => fill(numbers()).prefetch(64).batch(4, true).prefetch(64),
        "a buffer that is kept" => fill(numbers().prefetch(64)).shuffle(32, Some(1)).prefetch(64),
        other => panic!("unknown case {other:?}"),
    }
}

/// Returns the map function `fill`, which returns an element of `element_bytes` written bytes for any
/// input.
fn filling(element_bytes: usize, made: &Arc<AtomicUsize>) -> Functions {
    let made = Arc::clone(made);
    Functions::new().with_map("fill", move |_, _| {
        let made = Arc::clone(&made);
        let call = move |_: Value| {
            made.fetch_add(1, Ordering::Relaxed);
            let bytes = vec![1u8; element_bytes];
            Ok(Value::from_buf([Tensor::fixed(
                Dtype::U8,
                &[element_bytes as u64],
                bytes,
            )?]))
        };
        // The spec must not reveal the size of the elements in advance.
        let output = TensorSpec::with_dims(Dtype::U8, &[None]);
        Ok(PreparedMap {
            output: ElementSpec::single(output).map_err(|error| error.to_string())?,
            call: Arc::new(call),
        })
    })
}

/// Returns when `progress` has returned the same value for a while.
fn come_to_rest<T: PartialEq>(progress: impl Fn() -> T) {
    let mut before = progress();
    let mut unchanged = 0;
    while unchanged < 10 {
        std::thread::sleep(Duration::from_millis(1));
        let now = progress();
        unchanged = if now == before { unchanged + 1 } else { 0 };
        before = now;
    }
}

/// Returns a figure in KiB that the kernel reports about this process.
fn status_kib(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
