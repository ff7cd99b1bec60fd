//! Tests that patterns match the same files in a store as on this machine.

use millstream_pipeline::exec::ErrorKind;
use millstream_pipeline::graph::Dataset;
use millstream_pipeline::plan::{SourcePlan, plan_splits};
use millstream_pipeline::storage::Storage;

use crate::changed_files::opened;
use crate::support::functions;

use super::s3::S3;
use super::storage;

const KEYS: [&str; 12] = [
    "a.txt",
    "b.txt",
    "b.tar",
    "d/a.txt",
    "d/b.txt",
    "d/c[1].txt",
    "d/e/a.txt",
    "d/e/f/a.txt",
    "d2/a.txt",
    "d2/e/a.txt",
    "x/.hidden",
    "x/ü.txt",
];

fn names(storage: &Storage, root: &str, pattern: &str) -> Result<Vec<(String, Option<u64>)>, ErrorKind> {
    let found = storage
        .list(&format!("{root}/{pattern}"))
        .map_err(|error| error.kind())?;
    let relative = found.into_iter().map(|file| {
        let name = file.path.strip_prefix(root).unwrap().to_owned();
        (name, file.size_bytes)
    });
    Ok(relative.collect())
}

#[test]
fn patterns_match_objects_as_they_match_files() {
    let s3 = S3::start();
    for (size, key) in KEYS.iter().enumerate() {
        s3.put(key, &vec![0; size]);
    }
    let storage = storage(&s3.endpoint());
    let root = s3.bucket().display().to_string();
    for pattern in [
        "*",
        "*.txt",
        "?.t*",
        "[ab].txt",
        "[!a].txt",
        "d/*",
        "d*/*.txt",
        "d/*/a.txt",
        "d*/e/*.txt",
        "**/*.txt",
        "d/**/*.txt",
        "d/**/a.txt",
        "d/c[[]1].txt",
        "x/*",
        "a.txt",
        "d/e/f/a.txt",
        "*/",
        "none/*",
        "none",
    ] {
        let here = names(&storage, &root, pattern);
        let there = names(&storage, "s3://bucket", pattern);
        assert_eq!(there, here, "{pattern}");
    }
}

#[test]
fn a_long_listing_is_whole_and_sorted() {
    let s3 = S3::start();
    for number in 0..2345 {
        s3.put(&format!("many/{number:05}.txt"), b"");
        if number % 100 == 0 {
            s3.put(&format!("many/{number:05}/below.txt"), b"");
        }
    }
    let storage = storage(&s3.endpoint());
    let found = storage.list("s3://bucket/many/*.txt").unwrap();
    assert_eq!(found.len(), 2345);
    assert!(found.is_sorted_by(|one, other| one.path < other.path));
    assert_eq!(storage.list("s3://bucket/many/*/*.txt").unwrap().len(), 24);
    assert_eq!(
        storage.list("s3://bucket/many/**/*.txt").unwrap().len(),
        2345 + 24
    );
    assert_eq!(storage.list("s3://bucket/many/012*.txt").unwrap().len(), 100);
}

#[test]
fn an_iteration_over_a_store_is_planned() {
    let s3 = S3::start();
    for key in KEYS {
        s3.put(key, b"");
    }
    let graph = Dataset::files("s3://bucket/d/*.txt")
        .text_lines()
        .graph()
        .unwrap();
    let plan = plan_splits(&graph, &functions(), &storage(&s3.endpoint())).unwrap();
    let SourcePlan::Listed { items } = &plan.sources[0] else {
        panic!("files are listed")
    };
    let expected = ["a.txt", "b.txt", "c[1].txt"].map(|name| format!("s3://bucket/d/{name}").into_bytes());
    let payloads: Vec<_> = items.iter().map(|item| item.payload.clone()).collect();
    assert_eq!(payloads, expected);
    assert!(items.iter().all(|item| item.version.is_some()), "{items:?}");
}

#[test]
fn unlistable_patterns_are_refused_with_reasons() {
    let s3 = S3::start();
    let storage = storage(&s3.endpoint());
    for (pattern, kind, reason) in [
        ("s3://bucket/a***", ErrorKind::Caller, "invalid glob pattern"),
        ("s3://bucket/*", ErrorKind::NotFound, "matches no object"),
        ("s3://bucket/none", ErrorKind::NotFound, "object does not exist"),
        ("s3://none/*", ErrorKind::NotFound, "bucket does not exist"),
        ("http://127.0.0.1:1/*.txt", ErrorKind::Caller, "no listing"),
        ("ftp://host/*", ErrorKind::Caller, "unknown scheme ftp://"),
    ] {
        let refused = storage.list(pattern).unwrap_err();
        assert_eq!(refused.kind(), kind, "{refused}");
        let said = refused.to_string();
        assert!(said.contains(pattern) && said.contains(reason), "{said}");
    }
    // A path of a single file on a server is not requested: some servers can only answer by sending the
    // file.
    let one = storage.list("http://127.0.0.1:1/a?b=c*").unwrap();
    assert_eq!(one[0].path, "http://127.0.0.1:1/a?b=c*");
}

#[test]
fn objects_changed_after_the_plan_are_refused() {
    let s3 = S3::start();
    s3.put("a.txt", b"one\n");
    let dataset = Dataset::files("s3://bucket/a.txt").text_lines();
    let unchanged = || opened(dataset.clone(), &storage(&s3.endpoint()), || ());
    assert!(unchanged().next().unwrap().is_some());
    let mut changed = opened(dataset, &storage(&s3.endpoint()), || {
        s3.put("a.txt", b"one\ntwo\n")
    });
    let error = changed.next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Precondition, "{error}");
    assert!(
        error
            .to_string()
            .contains("s3://bucket/a.txt: the file was changed"),
        "{error}"
    );
}
