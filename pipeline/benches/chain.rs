//! Measures the cost that the executor adds per element. The benchmark runs a serial chain of five
//! trivial operations over `i64`: as one step (maps) and as five steps (filters). Each chain runs with
//! and without measured stages.
//!
//! Prints nanoseconds per element and operation: the best and the median of all rounds. Also prints the
//! time of the source alone, which the reader subtracts.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use millstream_pipeline::exec::{ExecContext, Executor, Functions, Pool, PreparedMap, Tensor, Value};
use millstream_pipeline::graph::{Dataset, Graph, Params};

/// The number of elements in one round.
const ELEMENTS: u32 = 100_000;
/// The number of rounds of each case. The cases alternate, so that all cases run under the same load of
/// the machine.
const ROUNDS: usize = 31;
/// The number of operations in a chain, apart from its source.
const STAGES: usize = 5;

fn functions() -> Functions {
    let add_one = |value: Value| {
        let number = value.first().and_then(Tensor::as_i64).ok_or("no number")?;
        Ok(Value::from_buf([Tensor::i64(number + 1)]))
    };
    Functions::new()
        .with_map("add_one", move |_, input| {
            Ok(PreparedMap {
                output: input.clone(),
                call: Arc::new(add_one),
            })
        })
        .with_filter("all", |_, _| Ok(Arc::new(|_: &Value| Ok(true))))
}

/// Returns an endless chain of `stages` operations.
fn chain(stages: usize, then: impl Fn(Dataset) -> Dataset) -> Graph {
    let chain = (0..stages).fold(Dataset::counter(0, 1), |dataset, _| then(dataset));
    chain.graph().expect("the chain is valid")
}

fn open(graph: &Graph, measured: bool) -> Executor {
    let pool = Arc::new(Pool::new(1).expect("a thread"));
    let context = ExecContext {
        measured,
        ..ExecContext::new(1, Arc::new(functions()), pool)
    };
    Executor::open(graph, context).expect("the graph is valid for execution")
}

/// Runs one round, and returns its nanoseconds per element.
fn round(executor: &mut Executor, elements: u32) -> f64 {
    let begun = Instant::now();
    for _ in 0..elements {
        black_box(executor.next().expect("no operation fails"));
    }
    begun.elapsed().as_secs_f64() * 1e9 / f64::from(elements)
}

fn main() {
    // Without `--bench`, a short run only checks that the benchmark works.
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let (rounds, elements) = if is_bench { (ROUNDS, ELEMENTS) } else { (1, 100) };
    let map = |dataset: Dataset| dataset.map("add_one", Params::none());
    let filter = |dataset: Dataset| dataset.filter("all", Params::none());
    let graphs = [
        ("source alone", 1, chain(0, map)),
        ("5 maps", STAGES, chain(STAGES, map)),
        ("5 filters", STAGES, chain(STAGES, filter)),
    ];
    let mut cases = Vec::new();
    for (name, stages, graph) in &graphs {
        for measured in [false, true] {
            cases.push((*name, *stages, measured, open(graph, measured), Vec::new()));
        }
    }
    for _ in 0..rounds {
        for (_, stages, _, executor, found) in &mut cases {
            found.push(round(executor, elements) / *stages as f64);
        }
    }
    println!(
        "{:14} {:>8} {:>10} {:>10}",
        "chain", "measured", "best ns", "median ns"
    );
    for (name, _, measured, _, found) in &mut cases {
        found.sort_by(f64::total_cmp);
        let (best, median) = (found[0], found[found.len() / 2]);
        println!("{name:14} {measured:>8} {best:>10.1} {median:>10.1}");
    }
}
