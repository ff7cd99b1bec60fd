//! Tests that a dataset that runs on each split alone refuses files that were changed after the plan was
//! made. Two attempts at a split would otherwise yield elements of different versions.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use millstream_pipeline::exec::{ErrorKind, ExecContext, ExecError, Executor};
use millstream_pipeline::graph::{Dataset, Graph};
use millstream_pipeline::plan::plan_splits;
use millstream_pipeline::storage::Storage;
use tempfile::TempDir;

use crate::splits::Dealer;
use crate::support::{context, functions};

/// Returns a folder with one file of three lines, the path of the file, and a dataset of the lines.
fn lines() -> (TempDir, PathBuf, Dataset) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    fs::write(&path, "one\ntwo\nthree\n").unwrap();
    let dataset = Dataset::files(path.to_str().unwrap());
    (folder, path, dataset)
}

/// Plans an epoch of `dataset`, calls `between`, and opens the dataset on each split alone.
pub(crate) fn opened(dataset: Dataset, storage: &Storage, between: impl FnOnce()) -> Executor {
    let exact = |graph: Graph| graph.for_exactly_once(7, &functions()).unwrap();
    let graph = exact(dataset.graph().unwrap());
    let plan = plan_splits(&graph, &functions(), storage).unwrap();
    let splits = Box::new(Dealer::new(plan.clone()));
    between();
    let context = ExecContext {
        plan: Some(plan),
        splits: Some(splits),
        by_split: true,
        storage: storage.clone(),
        ..context()
    };
    Executor::open(&graph, context).unwrap()
}

/// Reads all elements, and returns their number, or the first error.
fn read(executor: &mut Executor) -> Result<usize, ExecError> {
    let mut count = 0;
    while executor.next()?.is_some() {
        count += 1;
    }
    Ok(count)
}

fn refused(found: Result<usize, ExecError>, path: &Path) {
    let error = found.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Precondition, "{error}");
    let message = error.to_string();
    assert!(message.contains("the file was changed"), "{message}");
    assert!(message.contains(path.to_str().unwrap()), "{message}");
}

fn append(path: &Path) {
    let mut file = File::options().append(true).open(path).unwrap();
    file.write_all(b"four\n").unwrap();
}

#[test]
fn unchanged_files_are_read() {
    let (_folder, _, dataset) = lines();
    let mut executor = opened(dataset.text_lines(), &Storage::default(), || ());
    assert_eq!(read(&mut executor).unwrap(), 3);
}

#[test]
fn files_changed_after_the_plan_are_refused() {
    for is_longer in [true, false] {
        let (_folder, path, dataset) = lines();
        let change = || {
            if is_longer {
                append(&path);
            } else {
                let later = SystemTime::now() + Duration::from_secs(1);
                let file = File::options().append(true).open(&path).unwrap();
                file.set_modified(later).unwrap();
            }
        };
        let mut executor = opened(dataset.text_lines(), &Storage::default(), change);
        refused(read(&mut executor), &path);
    }
}

#[test]
fn copies_with_other_times_are_read() {
    let (folder, path, dataset) = lines();
    let copy = || {
        let other = folder.path().join("copy");
        fs::write(&other, "one\ntwo\nthree\n").unwrap();
        let later = SystemTime::now() + Duration::from_secs(1);
        let file = File::options().append(true).open(&other).unwrap();
        file.set_modified(later).unwrap();
        fs::rename(&other, &path).unwrap();
    };
    let mut executor = opened(dataset.text_lines(), &Storage::default(), copy);
    assert_eq!(read(&mut executor).unwrap(), 3);
}

/// A function opens the file without the storage of the executor.
#[test]
fn changed_files_of_functions_are_refused() {
    let (_folder, path, dataset) = lines();
    let change = || append(&path);
    let mut executor = opened(dataset, &Storage::default(), change);
    refused(read(&mut executor), &path);
}

#[test]
fn a_file_written_during_reading_is_refused() {
    let (_folder, path, dataset) = lines();
    let mut executor = opened(dataset.text_lines(), &Storage::default(), || ());
    assert!(executor.next().unwrap().is_some());
    append(&path);
    refused(read(&mut executor), &path);
}

#[test]
fn a_missing_file_is_not_left_out() {
    for is_ignored in [false, true] {
        let (_folder, path, dataset) = lines();
        let read_lines = dataset.text_lines();
        let dataset = if is_ignored {
            read_lines.ignore_errors(false)
        } else {
            read_lines
        };
        let remove = || fs::remove_file(&path).unwrap();
        let mut executor = opened(dataset, &Storage::default(), remove);
        let error = read(&mut executor).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    }
}
