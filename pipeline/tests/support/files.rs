//! Files to be read, and what is read of them, for the tests of formats.

use std::path::Path;

use millstream_element::Dtype;
use millstream_pipeline::exec::{ErrorKind, Executor, Item};
use millstream_pipeline::graph::{Dataset, Graph};
use tempfile::TempDir;

use super::open;

/// A tensor in full: dtype, shape, items.
pub(crate) type Flat = (Dtype, Vec<u64>, Vec<Vec<u8>>);

/// Files with these contents, in this order.
pub(crate) fn files<C: AsRef<[u8]>>(contents: &[C]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (index, content) in contents.iter().enumerate() {
        std::fs::write(directory.path().join(format!("{index:04}")), content).unwrap();
    }
    directory
}

/// The paths of all files there.
pub(crate) fn all(directory: &Path) -> Dataset {
    Dataset::files(format!("{}/*", directory.display()))
}

/// The components of an element in full.
pub(crate) fn flat(item: &Item) -> Vec<Flat> {
    let components = item.value.iter().map(|tensor| {
        let settled = tensor.settled().unwrap();
        let items = match tensor.dtype().item_bytes() {
            Some(bytes) => settled
                .contiguous()
                .unwrap()
                .chunks_exact(bytes)
                .map(<[u8]>::to_vec)
                .collect(),
            None => {
                let mut items = Vec::new();
                settled.for_each_string(&mut |item| items.push(item.to_vec()));
                items
            }
        };
        (tensor.dtype(), tensor.dims().to_vec(), items)
    });
    components.collect()
}

pub(crate) fn rest(executor: &mut Executor) -> Vec<Vec<Flat>> {
    let mut found = Vec::new();
    while let Some(item) = executor.next().unwrap() {
        found.push(flat(&item));
    }
    found
}

/// Everything the graph yields: the same however it is interrupted.
pub(crate) fn elements(graph: &Graph) -> Vec<Vec<Flat>> {
    let found = rest(&mut open(graph));
    for cut in 0..=found.len() {
        let mut executor = open(graph);
        let mut again: Vec<_> = (0..cut)
            .map(|_| flat(&executor.next().unwrap().unwrap()))
            .collect();
        let state = executor.save().unwrap();
        let mut restored = open(graph);
        restored.restore(&state).unwrap();
        again.extend(rest(&mut restored));
        assert_eq!(again, found, "gone on with after {cut} elements");
    }
    found
}

/// Returns the error of reading, and the number of elements before it.
pub(crate) fn failure(dataset: Dataset) -> (usize, String) {
    let mut executor = open(&dataset.graph().unwrap());
    for count in 0.. {
        match executor.next() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the damage was not noticed"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Data, "{error}");
                return (count, error.to_string());
            }
        }
    }
    unreachable!()
}

/// Reads files that may be damaged to the end or the first error, which blames the data. Whether there was
/// none.
pub(crate) fn survives(dataset: Dataset) -> bool {
    let mut executor = open(&dataset.graph().unwrap());
    for _ in 0..10_000 {
        match executor.next() {
            Ok(Some(item)) => item
                .value
                .iter()
                .for_each(|tensor| drop(tensor.settled().unwrap())),
            Ok(None) => return true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Data, "{error}");
                return false;
            }
        }
    }
    panic!("a damaged file has no end")
}

/// `bytes` with one of them changed, or cut off there.
pub(crate) fn damaged(bytes: &[u8], at: usize, change: Option<u8>) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    match change {
        Some(value) => bytes[at] = value,
        None => bytes.truncate(at),
    }
    bytes
}
