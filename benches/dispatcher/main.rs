//! Measures what the dispatcher costs and how many peers it keeps up with, as processes of the real program
//! over QUIC on loopback.
//!
//! - [`splits`]: a dataset read under DYNAMIC, in splits of several sizes, with and without a work directory
//! - [`peers`]: workers and readers that do nothing but live
//! - [`store`]: the size of a work directory, and how long a start takes
//! - [`processes`]: a dispatcher and workers that end with the bench, and the processor time that they take
//! - [`table`]: what is printed
//!
//! `cargo bench -p millstream --bench dispatcher -- splits` runs one part; `--elements=N` reads a dataset of
//! another size, `--peers=N` measures only so many. Without `--bench`, as under `cargo test --benches`, each
//! part runs once and small, to keep it working.

mod peers;
mod processes;
mod splits;
mod store;
mod table;

use std::io::Write;
use std::process::ExitCode;

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Scale {
    /// Whether the run is long enough for figures; a short run only shows that the benchmark works.
    is_full: bool,
    /// Elements of the dataset that is read, if they are to be others.
    elements: Option<u64>,
    /// Workers, and as many readers, if only so many are to be measured.
    peers: Option<usize>,
}

impl Scale {
    /// One of two amounts.
    fn pick<T>(self, full: T, small: T) -> T {
        if self.is_full { full } else { small }
    }
}

/// A part of the bench by its name.
type Part = (&'static str, fn(Scale) -> Result<(), String>);

const PARTS: [Part; 3] = [
    ("splits", splits::run),
    ("peers", peers::run),
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
            // Nothing is left to be done if that cannot be said either.
            let _ = writeln!(std::io::stderr(), "{name}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
