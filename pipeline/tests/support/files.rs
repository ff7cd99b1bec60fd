//! Files for the tests of formats, and functions that read them completely.

use std::path::Path;

use millstream_element::Dtype;
use millstream_pipeline::exec::{ErrorKind, ExecError, Executor, Item};
use millstream_pipeline::graph::{Dataset, Graph};
use tempfile::TempDir;

use super::open;

/// The complete contents of a tensor: dtype, shape and items.
pub(crate) type Flat = (Dtype, Vec<u64>, Vec<Vec<u8>>);

/// Makes a directory with one file per entry of `contents`, in this order.
pub(crate) fn files<C: AsRef<[u8]>>(contents: &[C]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (index, content) in contents.iter().enumerate() {
        std::fs::write(directory.path().join(format!("{index:04}")), content).unwrap();
    }
    directory
}

/// Returns a dataset of the paths of all files in `directory`.
pub(crate) fn all(directory: &Path) -> Dataset {
    Dataset::files(format!("{}/*", directory.display()))
}

/// Returns the complete contents of an element's components.
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

/// Returns all elements of `graph`. Checks that an interrupted and restored executor yields the same
/// elements.
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
        assert_eq!(
            again, found,
            "expected the same elements after a restore at element {cut}"
        );
    }
    found
}

/// Checks that the error blames the bytes of a file, or the values of an element.
fn assert_is_of_data(error: &ExecError) {
    assert!(
        matches!(error.kind(), ErrorKind::Data | ErrorKind::Value),
        "{error}"
    );
}

/// Returns the error of reading, and the number of elements before it.
pub(crate) fn failure(dataset: Dataset) -> (usize, String) {
    let mut executor = open(&dataset.graph().unwrap());
    for count in 0.. {
        match executor.next() {
            Ok(Some(_)) => {}
            Ok(None) => panic!("expected an error for a damaged file"),
            Err(error) => {
                assert_is_of_data(&error);
                return (count, error.to_string());
            }
        }
    }
    unreachable!()
}

/// Reads files that may be damaged, to the end or to the first error, which must blame the data.
/// Returns whether no error occurred.
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
                assert_is_of_data(&error);
                return false;
            }
        }
    }
    panic!("expected an end of a damaged file")
}

/// Returns `bytes` with the byte at `at` changed, or cut off before `at`.
pub(crate) fn damaged(bytes: &[u8], at: usize, change: Option<u8>) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    match change {
        Some(value) => bytes[at] = value,
        None => bytes.truncate(at),
    }
    bytes
}
