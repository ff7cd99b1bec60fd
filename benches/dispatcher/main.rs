//! Benchmarks of the dispatcher's cost, and of the number of peers that it can serve, with processes of the
//! real program over QUIC on loopback.
//!
//! - [`splits`]: reads a dataset under DYNAMIC, in splits of several sizes, with and without a work directory
//! - [`peers`]: connects workers and readers that only send heartbeats
//! - [`crowd`]: measures the state machine alone, with many more peers
//! - [`admin`]: the cost of metrics and of live pages
//! - [`store`]: measures the size of a work directory and the time of a start
//! - [`processes`]: starts a dispatcher and workers that end with the benchmark, and reads their processor
//!   time
//! - [`table`]: prints the figures
//!
//! `cargo bench -p millstream --bench dispatcher -- splits` runs one part. `--elements=N` sets the size of
//! the dataset, and `--peers=N` measures only one number of peers. Without `--bench`, as under
//! `cargo test --benches`, each part runs once with small sizes, as a test.

mod admin;
mod crowd;
mod peers;
mod processes;
mod splits;
mod store;
mod table;

use std::io::Write;
use std::process::ExitCode;

/// The scale of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scale {
    /// `true` if the run is long enough for figures. A short run only shows that the benchmark works.
    is_full: bool,
    /// The number of elements in the dataset, instead of the default.
    elements: Option<u64>,
    /// The only number of workers and of readers to measure, instead of the default numbers.
    peers: Option<usize>,
}

impl Scale {
    /// Returns `full` for a full run, and `small` for a short run.
    fn pick<T>(self, full: T, small: T) -> T {
        if self.is_full { full } else { small }
    }
}

/// A part of the benchmark, with its name.
type Part = (&'static str, fn(Scale) -> Result<(), String>);

const PARTS: [Part; 5] = [
    ("splits", splits::run),
    ("peers", peers::run),
    ("crowd", crowd::run),
    ("admin", admin::run),
    ("store", store::run),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let setting = |name: &'static str| arguments.iter().find_map(|argument| argument.strip_prefix(name));
    let scale = Scale {
        is_full: arguments.iter().any(|argument| argument == "--bench"),
        elements: setting("--elements=").and_then(|elements| elements.parse().ok()),
        peers: setting("--peers=").and_then(|peers| peers.parse().ok()),
    };
    let wanted: Vec<&String> = arguments
        .iter()
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    for (name, run) in PARTS {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| name.contains(wanted.as_str())) {
            continue;
        }
        if let Err(error) = run(scale) {
            // If standard error is closed too, the error cannot be reported.
            let _ = writeln!(std::io::stderr(), "{name}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
