//! Compares reading files through the pipeline with bare readers. For TFRecord files, the bare reader
//! is a loop over a buffered file that checks the same checksums. For Parquet files in batches, the
//! bare reader is the crate `parquet`.
//!
//! Both readers read the same files from the system's page cache, in turn. The benchmark compares the
//! medians of all rounds, and prints the lowest and highest times too.
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::expect_used, reason = "a benchmark ends where it cannot go on")]

use std::fs::File;
use std::hint::black_box;
use std::io::{BufReader, BufWriter, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{Float32Array, Int64Array, RecordBatch, StringArray};
use millstream_pipeline::exec::{ExecContext, Executor, Functions, Pool};
use millstream_pipeline::graph::{Columns, Compression, Dataset, Graph, Table};
use millstream_pipeline::record::TfRecordWriter;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

/// The number of rounds of each case. The two readers alternate, so that both run under the same load
/// of the machine.
const ROUNDS: usize = 15;
/// The bytes of a file.
const FILE_BYTES: usize = 64 << 20;
/// The number of rows in a batch.
const ROWS: usize = 8192;

/// A function that reads a whole file and returns the number of elements.
type Scan = Box<dyn Fn() -> usize>;

fn main() {
    // Without `--bench`, a short run only checks that the benchmark works.
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let (rounds, file_bytes) = if is_bench {
        (ROUNDS, FILE_BYTES)
    } else {
        (1, 1 << 20)
    };
    let filter = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with("--"));
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut cases: Vec<(String, Scan, Scan)> = Vec::new();
    for record_bytes in [256, 4 << 10, 64 << 10] {
        let path = directory.path().join(format!("{record_bytes}.tfrecord"));
        write_records(&path, record_bytes, file_bytes / record_bytes);
        let ours = Dataset::files(path.display().to_string()).tfrecord(Compression::None);
        let bare = move || bare_records(&path);
        cases.push((
            format!("tfrecord, {record_bytes} B"),
            ours_of(ours),
            Box::new(bare),
        ));
    }
    for (name, is_text) in [("parquet, numbers", false), ("parquet, texts", true)] {
        let path = directory.path().join(format!("{is_text}.parquet"));
        write_table(&path, is_text, file_bytes / 24);
        let table = Table::batches(ROWS as u64, Columns::all());
        let ours = Dataset::files(path.display().to_string()).parquet(table);
        let bare = move || bare_table(&path);
        cases.push((name.to_owned(), ours_of(ours), Box::new(bare)));
    }
    println!(
        "{:18} {:>28} {:>28} {:>6}",
        "", "pipeline, ms", "bare reader, ms", "ratio"
    );
    cases.retain(|(name, _, _)| filter.as_ref().is_none_or(|filter| name.contains(filter)));
    for (name, ours, bare) in &cases {
        assert_eq!(
            ours(),
            bare(),
            "expected the same number of elements from both readers"
        );
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            with.push(milliseconds(ours));
            without.push(milliseconds(bare));
        }
        let (with, without) = (Spread::of(with), Spread::of(without));
        println!(
            "{name:18} {with:>28} {without:>28} {:6.2}",
            without.median / with.median
        );
    }
}

/// The lowest time, the median and the highest time of all rounds.
struct Spread {
    low: f64,
    median: f64,
    high: f64,
}

impl Spread {
    fn of(mut found: Vec<f64>) -> Spread {
        found.sort_by(f64::total_cmp);
        Spread {
            low: found[0],
            median: found[found.len() / 2],
            high: found[found.len() - 1],
        }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = format!("{:.1} [{:.1}–{:.1}]", self.median, self.low, self.high);
        f.pad(&shown)
    }
}

fn milliseconds(scan: &Scan) -> f64 {
    let begun = Instant::now();
    black_box(scan());
    begun.elapsed().as_secs_f64() * 1e3
}

/// Returns a scan that reads all elements of `dataset` through the pipeline.
fn ours_of(dataset: Dataset) -> Scan {
    let functions = Arc::new(Functions::new());
    let graph: Graph = dataset.graph().expect("the dataset is valid");
    let pool = Arc::new(Pool::new(1).expect("a thread"));
    Box::new(move || {
        let context = ExecContext::new(1, Arc::clone(&functions), Arc::clone(&pool));
        let mut executor = Executor::open(&graph, context).expect("the graph can be executed");
        let mut count = 0;
        while let Some(item) = executor.next().expect("the file is whole") {
            black_box(&item);
            count += 1;
        }
        count
    })
}

fn write_records(path: &Path, record_bytes: usize, records: usize) {
    let file = BufWriter::new(File::create(path).expect("a new file"));
    let mut writer = TfRecordWriter::new(file);
    let record: Vec<u8> = (0..record_bytes).map(|byte| byte as u8).collect();
    for _ in 0..records {
        writer.write(&record).expect("room on the disk");
    }
    writer.finish().expect("room on the disk");
}

/// Reads the records of a TFRecord file into memory of their own, with checked checksums. Returns their
/// number.
fn bare_records(path: &Path) -> usize {
    let masked = |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8);
    let mut stream = BufReader::with_capacity(256 << 10, File::open(path).expect("the file is there"));
    let (mut header, mut footer) = ([0; 12], [0; 4]);
    let mut count = 0;
    while stream.read_exact(&mut header).is_ok() {
        let (length, stated) = header.split_at(8);
        assert_eq!(masked(length).to_le_bytes(), stated);
        let length = u64::from_le_bytes(length.try_into().expect("eight bytes"));
        let mut record = vec![0; length as usize];
        stream.read_exact(&mut record).expect("the file is whole");
        stream.read_exact(&mut footer).expect("the file is whole");
        assert_eq!(masked(&record).to_le_bytes(), footer);
        black_box(record);
        count += 1;
    }
    count
}

fn write_table(path: &Path, is_text: bool, rows: usize) {
    let batch_of = |first: usize| {
        let numbers = || (first..first + ROWS).map(|row| (row.wrapping_mul(0x9e37_79b9) >> 3) as i64);
        if is_text {
            let texts: StringArray = numbers()
                .map(|number| Some(format!("the text of {number}")))
                .collect();
            return RecordBatch::try_from_iter([("text", Arc::new(texts) as _)]);
        }
        let integers: Int64Array = numbers().collect();
        let more: Int64Array = numbers().map(|number| number ^ 1).collect();
        let floats: Float32Array = numbers().map(|number| number as f32).collect();
        let others: Float32Array = numbers().map(|number| 1.0 / number as f32).collect();
        RecordBatch::try_from_iter([
            ("a", Arc::new(integers) as _),
            ("b", Arc::new(more) as _),
            ("c", Arc::new(floats) as _),
            ("d", Arc::new(others) as _),
        ])
    };
    let schema = batch_of(0).expect("columns of one length").schema();
    let file = File::create(path).expect("a new file");
    let mut writer = ArrowWriter::try_new(file, schema, None).expect("a writer");
    for first in (0..rows).step_by(ROWS) {
        let batch = batch_of(first).expect("columns of one length");
        writer.write(&batch).expect("room on the disk");
    }
    writer.close().expect("room on the disk");
}

fn bare_table(path: &Path) -> usize {
    let file = File::open(path).expect("the file is there");
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("a Parquet file");
    let batches = reader.with_batch_size(ROWS).build().expect("a Parquet file");
    let batches = batches.map(|batch| black_box(batch.expect("the file is whole")));
    batches.count()
}
