//! Tests of `write_chunk`: the chunk is written once, and failures leave no chunk.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::exec::{ErrorKind, ExecContext, ExecError, Executor, Functions, Pool};
use crate::exec::{Split, SplitError, SplitSource};
use crate::graph::{Dataset, Packing};
use crate::ops::chunks::chunk_path;

fn place() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["chunks", "uncommitted"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let path = folder.path().to_str().unwrap().to_owned();
    (folder, path)
}

fn context() -> ExecContext {
    ExecContext::new(1, Arc::new(Functions::new()), Arc::new(Pool::new(1).unwrap()))
}

fn sizes(dataset: Dataset) -> Result<(i64, i64), ExecError> {
    let mut executor = Executor::open(&dataset.graph().unwrap(), context()).unwrap();
    let item = executor.next()?.unwrap();
    assert!(executor.next()?.is_none());
    Ok((item.value[0].as_i64().unwrap(), item.value[1].as_i64().unwrap()))
}

fn range(count: i64) -> Dataset {
    Dataset::range(0, count, 1)
}

fn temporary(path: &str) -> usize {
    fs::read_dir(Path::new(path).join("uncommitted")).unwrap().count()
}

#[test]
fn a_chunk_is_written_once() {
    let (_folder, path) = place();
    let written = sizes(range(10).write_chunk(path.as_str(), Packing::Lz4)).unwrap();
    let chunk = chunk_path(&path, 0);
    let bytes = fs::read(&chunk).unwrap();
    assert_eq!(written, (10, bytes.len() as i64));
    // This dataset fails, unless the chunk that exists is neither computed nor written again.
    let failing = range(10).assert_cardinality(11);
    assert_eq!(
        sizes(failing.write_chunk(path.as_str(), Packing::None)).unwrap(),
        written
    );
    assert_eq!(fs::read(&chunk).unwrap(), bytes);
    assert_eq!(temporary(&path), 0);
}

#[test]
fn a_failed_dataset_commits_nothing() {
    let (_folder, path) = place();
    let failing = range(10).assert_cardinality(11);
    let error = sizes(failing.write_chunk(path.as_str(), Packing::None)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Precondition, "{error}");
    assert!(!chunk_path(&path, 0).exists());
    assert_eq!(temporary(&path), 0);
}

#[test]
fn missing_directories_are_never_created() {
    let (folder, _) = place();
    let path = folder.path().join("elsewhere").to_str().unwrap().to_owned();
    let error = sizes(range(3).write_chunk(path.as_str(), Packing::None)).unwrap_err();
    assert!(
        error.to_string().contains("storage that all workers share"),
        "{error}"
    );
    assert!(!Path::new(&path).exists());
}

#[test]
fn a_damaged_chunk_is_named() {
    let (_folder, path) = place();
    let chunk = chunk_path(&path, 0);
    fs::write(&chunk, b"MSELEM").unwrap();
    let error = sizes(range(3).write_chunk(path.as_str(), Packing::None)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data);
    let text = error.to_string();
    assert!(
        text.contains("chunk_000000000000.elements") && text.contains("truncated: remove the file"),
        "{text}"
    );
}

/// A feed of splits that several workers share.
struct Mixed;

impl SplitSource for Mixed {
    fn next(&mut self, _: u32, _: u64) -> Result<Option<Split>, SplitError> {
        Ok(None)
    }
}

#[test]
fn jobs_that_mix_splits_are_refused() {
    let (_folder, path) = place();
    let graph = range(3)
        .write_chunk(path.as_str(), Packing::None)
        .graph()
        .unwrap();
    let context = ExecContext {
        splits: Some(Box::new(Mixed)),
        ..context()
    };
    let error = Executor::open(&graph, context).err().unwrap().to_string();
    assert!(error.contains("exactly_once"), "{error}");
    assert!(!chunk_path(&path, 0).exists());
}
