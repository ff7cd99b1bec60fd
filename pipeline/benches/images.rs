//! Measures pictures per second: decodes JPEG files, applies a random resized crop, flips, batches, and
//! writes packs like a worker does.
//!
//! `images PATTERN THREADS` runs one round for each line of its standard input; the line states the
//! round's length in seconds. Prints each result as a line of JSON. `benches/peers/images.py` runs this
//! benchmark and its competitors.
#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::error::Error;
use std::io::BufRead;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millstream_element::{Dtype, ElementSpec, Layout, PackWriter, Pool as SlotPool, TensorSpec};
use millstream_pipeline::exec::{ExecContext, Executor, Functions, Pool, PreparedMap, Tensor, Value};
use millstream_pipeline::graph::{Dataset, Graph, Params};

/// The allocator of the binary. The system's allocator would return large blocks to the kernel after
/// every use.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BATCH: u64 = 32;
/// The bytes of memory for packs.
const SLOTS_BYTES: usize = 32 << 20;
/// The bytes of one pack, which has room for one batch.
const PACK_BYTES: usize = 5 << 20;
/// The number of batches at the start of a round that are not counted, while caches and threads warm
/// up.
const WARM_UP: u64 = 2;

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo bench` adds the argument `--bench`.
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| !arg.starts_with("--"))
        .collect();
    let [pattern, threads] = &args[..] else {
        println!("usage: images PATTERN THREADS, with the seconds of each round on the standard input");
        return Ok(());
    };
    let threads: usize = threads.parse()?;
    let pool = Arc::new(Pool::new(threads)?);
    let graph = graph(pattern)?;
    for line in std::io::stdin().lock().lines() {
        let seconds: f64 = line?.trim().parse()?;
        let (images, seconds, all, cpu_s) = round(&graph, &pool, Duration::from_secs_f64(seconds))?;
        println!(
            "{{\"images_per_s\": {:.1}, \"cpu_ms_per_image\": {:.4}}}",
            images as f64 / seconds,
            cpu_s * 1e3 / all as f64
        );
    }
    Ok(())
}

fn graph(pattern: &str) -> Result<Graph, Box<dyn Error>> {
    Ok(Dataset::files_shuffled(pattern, None)
        .repeat(None)
        .map("read_file", Params::none())
        .parallel(0)
        .decode_image("")
        .random_resized_crop("", 224, 224)
        .random_flip_left_right("", None)
        .batch(BATCH, true)
        .graph()?)
}

/// Runs one round. Returns the counted images, their seconds, the number of all images, and the CPU
/// seconds of all images.
fn round(graph: &Graph, pool: &Arc<Pool>, time: Duration) -> Result<(u64, f64, u64, f64), Box<dyn Error>> {
    let before = cpu_s()?;
    let context = ExecContext::new(1, Arc::new(functions()), Arc::clone(pool));
    let mut executor = Executor::open(graph, context)?;
    let layout = Layout::new(executor.spec().clone())?;
    // A worker takes its slots from a pool as well.
    let slots = SlotPool::new(SLOTS_BYTES);
    let mut batch = || -> Result<(), Box<dyn Error>> {
        let (mut pack, _taken) = PackWriter::open(&slots, PACK_BYTES, 1)?;
        executor.write(&layout, &mut pack, 1)?;
        Ok(())
    };
    for _ in 0..WARM_UP {
        batch()?;
    }
    let (start, mut batches) = (Instant::now(), 0);
    while start.elapsed() < time {
        batch()?;
        batches += 1;
    }
    let seconds = start.elapsed().as_secs_f64();
    drop(executor);
    Ok((
        batches * BATCH,
        seconds,
        (batches + WARM_UP) * BATCH,
        cpu_s()? - before,
    ))
}

/// Returns the map function `read_file`, which reads a whole file like `tf.io.read_file`.
fn functions() -> Functions {
    Functions::new().with_map("read_file", |_, _| {
        let call = |value: Value| {
            let path = value.first().and_then(Tensor::contiguous).unwrap_or_default();
            let bytes = std::fs::read(std::str::from_utf8(path)?)?;
            Ok(Value::from_buf([Tensor::bytes(bytes)]))
        };
        let output =
            ElementSpec::single(TensorSpec::scalar(Dtype::Bytes)).map_err(|error| error.to_string())?;
        Ok(PreparedMap {
            output,
            call: Arc::new(call),
        })
    })
}

/// Returns the CPU seconds that this process has used.
fn cpu_s() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The process name may contain any characters, so the parser starts after its closing parenthesis.
    // The 12th and 13th fields from there are user and system time in hundredths of a second.
    let behind = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = behind
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(str::parse::<u64>)
        .sum::<Result<u64, _>>()?;
    Ok(ticks as f64 / 100.0)
}
