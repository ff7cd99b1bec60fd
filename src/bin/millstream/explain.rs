//! `millstream explain`: draws a dataset as it is executed. After a test run in this process, the drawing
//! shows the cost of each stage.

use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream::control::DatasetId;
use millstream::element::{HeapAlloc, Layout, PackWriter};
use millstream::functions;
use millstream::pipeline::exec::{Cancel, ExecContext, Executor, Pool, Stop};
use millstream::pipeline::graph::{Dataset, Drawing, GRAPH_BYTES_MAX, Graph};

use crate::args::ExplainArgs;
use crate::asking;
use crate::console::{note, say};
use crate::ending::{Brake, Ending, NotDone};
use crate::lineage;
use crate::pictures::pictures;

/// The size of a pack in bytes. A larger element gets a larger pack.
const PACK_BYTES: usize = 1 << 20;
/// The maximum number of elements in one pack.
const PACK_ELEMENTS: usize = 1024;

/// Runs the command.
pub(crate) fn run(args: &ExplainArgs) -> Result<(), String> {
    if let Some((job, step)) = args.job.zip(args.step) {
        return lineage::run(args, job, step);
    }
    let graph = graph(args)?;
    let drawing = match args.run_s {
        None => graph.drawing(),
        Some(seconds) => {
            let limit = Duration::try_from_secs_f64(seconds)
                .map_err(|_| format!("--run-s {seconds}: write seconds, 0 or more"))?;
            let (ending, brake) = (Ending::watch(false)?, Brake::default());
            let (held, threads) = (brake.clone(), args.threads);
            let outcome = ending.unless(&brake, move || measured(&graph, limit, threads, &held));
            outcome.map_err(NotDone::text)??
        }
    };
    say(&text(&drawing, args.dot));
    Ok(())
}

fn text(drawing: &Drawing, dot: bool) -> String {
    let text = if dot {
        drawing.to_dot()
    } else {
        drawing.to_string()
    };
    text.trim_end().to_owned()
}

/// Returns the graph to explain.
fn graph(args: &ExplainArgs) -> Result<Graph, String> {
    if let Some(id) = &args.dataset {
        let id = DatasetId::new(id).map_err(|error| format!("--dataset {id}: {error}"))?;
        let service = asking::connect(&args.identity, &args.dispatcher)?;
        return service.graph(&id).map_err(|error| error.to_string());
    }
    let dataset = match (&args.definition, &args.files, args.range) {
        (Some(path), None, None) => return definition(path),
        (None, Some(pattern), None) => pictures(pattern),
        (None, None, Some(count)) => {
            let stop = i64::try_from(count).map_err(|_| format!("--range {count}: at most {}", i64::MAX))?;
            Dataset::range(0, stop, 1)
        }
        _ => {
            return Err(
                "give one of --dataset ID, --job ID, --definition FILE, --files PATTERN and --range N"
                    .to_owned(),
            );
        }
    };
    let dataset = if args.batch > 0 {
        dataset.batch(args.batch, false)
    } else {
        dataset
    };
    dataset.graph().map_err(|error| error.to_string())
}

/// Reads a definition from a file, in the format of [`Graph::to_bytes`].
fn definition(path: &std::path::Path) -> Result<Graph, String> {
    let failed = |error: &dyn std::fmt::Display| format!("--definition {}: {error}", path.display());
    let file = std::fs::File::open(path).map_err(|error| failed(&error))?;
    let mut bytes = Vec::new();
    // The reader stops one byte after the largest graph, so that a longer file is refused without being read
    // completely.
    let mut limited = file.take(GRAPH_BYTES_MAX as u64 + 1);
    limited.read_to_end(&mut bytes).map_err(|error| failed(&error))?;
    Graph::from_bytes(&bytes).map_err(|error| failed(&error))
}

/// Executes the dataset in this process, to its end or for `limit`, and draws it with the cost of each stage.
fn measured(
    graph: &Graph,
    limit: Duration,
    threads: Option<usize>,
    brake: &Brake,
) -> Result<Drawing, String> {
    let threads = threads.or_else(|| std::thread::available_parallelism().ok().map(usize::from));
    let pool = Pool::new(threads.unwrap_or(1)).map_err(|error| error.to_string())?;
    let cancel = Cancel::new();
    let context = ExecContext {
        cancel: cancel.clone(),
        measured: true,
        ..ExecContext::new(0, Arc::new(functions::builtin(None)), Arc::new(pool))
    };
    brake.hold(move || cancel.cancel());
    let mut executor = Executor::open(graph, context).map_err(|error| error.to_string())?;
    drain(&mut executor, limit)?;
    let stats = executor.stats();
    if let Some(stats) = &stats {
        note(&format!(
            "{} elements in {:.3} s, {:.0} % of it in the pipeline; bottleneck: {}",
            executor.handed(),
            stats.elapsed.as_secs_f64(),
            100.0 * stats.pulled.as_secs_f64() / stats.elapsed.as_secs_f64().max(f64::MIN_POSITIVE),
            stats.bottleneck_name(),
        ));
    }
    for (operation, counts) in executor.failures().by_operation {
        note(&format!(
            "{operation}: {} elements skipped, {} calls retried",
            counts.skipped, counts.retried
        ));
    }
    Ok(executor.explain())
}

/// Writes elements into packs as a worker does, and drops the packs.
fn drain(executor: &mut Executor, limit: Duration) -> Result<(), String> {
    let layout = Layout::new(executor.spec().clone()).map_err(|error| error.to_string())?;
    let (begun, mut size_bytes) = (Instant::now(), PACK_BYTES);
    loop {
        let opened = PackWriter::open(&HeapAlloc, size_bytes, PACK_ELEMENTS);
        let (mut pack, _taken) = opened.map_err(|error| error.to_string())?;
        loop {
            let filled = executor.write(&layout, &mut pack, 1);
            match filled.map_err(|error| error.to_string())?.stop {
                Stop::Limit if begun.elapsed() < limit => {}
                Stop::Limit | Stop::End => return Ok(()),
                Stop::Full { needed_bytes } => {
                    size_bytes = needed_bytes.max(PACK_BYTES);
                    break;
                }
            }
        }
    }
}
