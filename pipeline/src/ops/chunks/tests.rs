//! Tests of `chunks`: paths arrive in order, also while the dataset is being saved.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::chunk_path;
use crate::exec::{Cancel, ErrorKind, ExecContext, Executor, Functions, Pool};
use crate::graph::{Cardinality, Dataset};

/// A wait that no test reaches, in milliseconds.
const LONG: Option<u64> = Some(600_000);

fn place() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("chunks")).unwrap();
    let path = folder.path().to_str().unwrap().to_owned();
    (folder, path)
}

fn open(dataset: Dataset, cancel: &Cancel) -> Executor {
    let pool = Arc::new(Pool::new(1).unwrap());
    let context = ExecContext {
        cancel: cancel.clone(),
        ..ExecContext::new(1, Arc::new(Functions::new()), pool)
    };
    Executor::open(&dataset.graph().unwrap(), context).unwrap()
}

fn opened(dataset: Dataset) -> Executor {
    open(dataset, &Cancel::new())
}

fn rest(executor: &mut Executor) -> Vec<String> {
    let mut paths = Vec::new();
    while let Some(item) = executor.next().unwrap() {
        item.value[0].for_each_string(&mut |path| paths.push(String::from_utf8_lossy(path).into_owned()));
    }
    paths
}

fn paths(path: &str, numbers: std::ops::Range<u64>) -> Vec<String> {
    numbers
        .map(|number| chunk_path(path, number).display().to_string())
        .collect()
}

fn commit(path: &str, number: u64) {
    fs::write(chunk_path(path, number), b"").unwrap();
}

fn done(path: &str, chunks: u64) {
    let text = format!("{{\"chunks\": {chunks}, \"elements\": 0}}");
    fs::write(Path::new(path).join("DONE"), text).unwrap();
}

#[test]
fn a_saved_dataset_has_its_chunks_in_order() {
    let (_folder, path) = place();
    let dataset = Dataset::chunks(path.as_str(), Some(12), None);
    let facts = dataset.clone().graph().unwrap().facts(&Functions::new()).unwrap();
    assert_eq!(facts.cardinality, Cardinality::Finite(12));
    assert_eq!(rest(&mut opened(dataset)), paths(&path, 0..12));
}

#[test]
fn chunks_are_awaited_until_the_save_ends() {
    for count in [Some(3), None] {
        let (_folder, path) = place();
        let mut executor = opened(Dataset::chunks(path.as_str(), count, LONG));
        let saved = path.clone();
        let saving = thread::spawn(move || {
            for number in 0..3 {
                commit(&saved, number);
                thread::yield_now();
            }
            done(&saved, 3);
        });
        assert_eq!(rest(&mut executor), paths(&path, 0..3));
        assert!(executor.next().unwrap().is_none(), "the end is final");
        saving.join().unwrap();
    }
}

#[test]
fn a_position_is_kept_while_the_save_runs() {
    let (_folder, path) = place();
    let dataset = Dataset::chunks(path.as_str(), None, LONG).repeat(Some(2));
    commit(&path, 0);
    let mut first = opened(dataset.clone());
    assert!(first.next().unwrap().is_some());
    let state = first.save().unwrap();
    commit(&path, 1);
    done(&path, 2);
    let mut second = opened(dataset);
    second.restore(&state).unwrap();
    let wanted: Vec<String> = paths(&path, 1..2).into_iter().chain(paths(&path, 0..2)).collect();
    assert_eq!(rest(&mut second), wanted);
}

#[test]
fn an_empty_dataset_repeats_to_its_end() {
    let (_folder, path) = place();
    done(&path, 0);
    assert!(
        rest(&mut opened(
            Dataset::chunks(path.as_str(), None, LONG).repeat(None)
        ))
        .is_empty()
    );
}

#[test]
fn a_failed_save_fails_its_readers() {
    let (_folder, path) = place();
    commit(&path, 0);
    fs::write(Path::new(&path).join("ERROR"), "{\"message\": \"no more data\"}").unwrap();
    let mut executor = opened(Dataset::chunks(path.as_str(), Some(2), LONG));
    assert!(executor.next().unwrap().is_some(), "committed chunks are whole");
    let error = executor.next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data);
    assert!(error.to_string().contains("failed: no more data"), "{error}");
}

#[test]
fn a_wait_ends_at_its_limit() {
    let (_folder, path) = place();
    let mut executor = opened(Dataset::chunks(path.as_str(), None, Some(1)));
    let error = executor.next().unwrap_err().to_string();
    assert!(
        error.contains("expected chunk 0") && error.contains("within 1ms"),
        "{error}"
    );
}

#[test]
fn a_cancelled_wait_ends() {
    let (_folder, path) = place();
    let cancel = Cancel::new();
    let mut executor = open(Dataset::chunks(path.as_str(), None, LONG), &cancel);
    let waiting = thread::spawn(move || executor.next().unwrap_err().kind());
    thread::sleep(Duration::from_millis(5));
    cancel.cancel();
    assert_eq!(waiting.join().unwrap(), ErrorKind::Cancelled);
}

#[test]
fn unknown_numbers_of_chunks_are_not_split() {
    let facts = |count| {
        let graph = Dataset::chunks("saved", count, LONG).graph().unwrap();
        graph.facts(&Functions::new()).unwrap().splittable
    };
    assert_eq!(facts(Some(3)), Ok(()));
    assert!(facts(None).unwrap_err().contains("load it after the save"));
    assert!(Dataset::chunks("saved", None, None).graph().is_err());
}
