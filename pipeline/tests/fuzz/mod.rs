//! Fuzz targets of everything that the pipeline reads: definitions, saved states, files of every
//! format, pictures and texts. `cargo test` replays the corpora and adds random inputs. CONTRIBUTING.md
//! describes the search for new inputs.

mod files;
mod repaired;
mod values;

use std::path::PathBuf;

use millstream_pipeline::exec::{ErrorKind, Executor};
use millstream_pipeline::graph::{Dataset, Graph, NoFunctions};

use crate::support::{context, open};

/// The number of random inputs per target in a test run, in addition to the corpus. Each input is read
/// as a file.
const RANDOM_INPUTS: usize = 50;

/// The maximum number of elements that are read from one input.
const ELEMENTS_MAX: usize = 2000;

/// A temporary folder with the file to which each input is written.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Scratch {
        Scratch(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Reads `bytes` as a file with the name `name`.
    fn read(&self, name: &str, bytes: &[u8], reader: impl Fn(Dataset) -> Dataset) {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        drain(reader(Dataset::files(path.to_str().unwrap())));
    }
}

/// Reads a dataset to its end or to its first error, which must blame the data or the caller.
fn drain(dataset: Dataset) {
    let Ok(graph) = dataset.graph() else {
        return;
    };
    let mut executor = match Executor::open(&graph, context()) {
        Ok(executor) => executor,
        // Formats that describe themselves are read already when the dataset is opened, which may fail.
        Err(_) => return,
    };
    for _ in 0..ELEMENTS_MAX {
        match executor.next() {
            Ok(Some(item)) => item
                .value
                .iter()
                .for_each(|tensor| drop(tensor.settled().unwrap())),
            Ok(None) => return,
            Err(error) => {
                // A file without the requested table may be the caller's fault, and an index may name
                // files that do not exist.
                let is_blamed = matches!(
                    error.kind(),
                    ErrorKind::Data | ErrorKind::Value | ErrorKind::Caller
                );
                assert!(is_blamed || error.to_string().contains("cannot open"), "{error}");
                return;
            }
        }
    }
}

#[test]
fn definitions() {
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            if let Ok(graph) = Graph::from_bytes(bytes) {
                assert_eq!(Graph::from_bytes(&graph.to_bytes().unwrap()).unwrap(), graph);
                let _ = graph.facts(&NoFunctions);
            }
        });
}

/// Restores a state for one of three datasets, which the first byte of the input chooses.
#[test]
fn states() {
    bolero::check!()
        .with_iterations(RANDOM_INPUTS)
        .for_each(|bytes: &[u8]| {
            let Some((which, state)) = bytes.split_first() else {
                return;
            };
            let mut executor = open(&saveable()[usize::from(*which) % 3]);
            if executor.restore(state).is_err() {
                return;
            }
            for _ in 0..100 {
                if !matches!(executor.next(), Ok(Some(_))) {
                    break;
                }
            }
        });
}

/// Returns datasets whose states contain positions, elements, and the states of nested datasets.
fn saveable() -> [Graph; 3] {
    let shuffled = Dataset::range(0, 50, 1).shuffle(8, Some(1)).batch(3, false);
    let zipped = Dataset::zip([Dataset::range(0, 9, 1).repeat(Some(3)), Dataset::range(5, 40, 2)]);
    let nested = Dataset::range(0, 20, 1).batch(4, true).unbatch().enumerate(7);
    [shuffled, zipped, nested].map(|dataset| dataset.graph().unwrap())
}
