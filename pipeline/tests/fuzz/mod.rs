//! Fuzz targets of what the pipeline reads: definitions, saved states, files of every format, pictures,
//! texts. `cargo test` replays their corpora and adds random inputs; CONTRIBUTING.md says how to search for
//! new inputs.

mod files;
mod repaired;
mod values;

use std::path::PathBuf;

use millstream_pipeline::exec::{ErrorKind, Executor};
use millstream_pipeline::graph::{Dataset, Graph, NoFunctions};

use crate::support::{context, open};

/// Random inputs beside the corpus, for each target of a test run. Each reads a file.
const RANDOM_INPUTS: usize = 50;

/// Elements that are read of one input.
const ELEMENTS_MAX: usize = 2000;

/// A file that each input is written to.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Scratch {
        Scratch(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Reads `bytes` as a file with this name.
    fn read(&self, name: &str, bytes: &[u8], reader: impl Fn(Dataset) -> Dataset) {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        drain(reader(Dataset::files(path.to_str().unwrap())));
    }
}

/// Reads a dataset to its end or its first error, which blames nobody but the data and who asks for it.
fn drain(dataset: Dataset) {
    let Ok(graph) = dataset.graph() else {
        return;
    };
    let mut executor = match Executor::open(&graph, context()) {
        Ok(executor) => executor,
        // A file that says itself what is in it is read when the dataset is opened.
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
                // A file without the table that is asked for may be the caller's fault, and an index may name
                // files that are not there.
                let is_blamed = matches!(error.kind(), ErrorKind::Data | ErrorKind::Caller);
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

/// The state of an executor of one of three datasets, by the first byte.
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

/// Datasets whose states hold positions, elements, and datasets within datasets.
fn saveable() -> [Graph; 3] {
    let shuffled = Dataset::range(0, 50, 1).shuffle(8, Some(1)).batch(3, false);
    let zipped = Dataset::zip([Dataset::range(0, 9, 1).repeat(Some(3)), Dataset::range(5, 40, 2)]);
    let nested = Dataset::range(0, 20, 1).batch(4, true).unbatch().enumerate(7);
    [shuffled, zipped, nested].map(|dataset| dataset.graph().unwrap())
}
