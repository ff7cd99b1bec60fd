//! Tests of file listings: the plan of an iteration fixes the files, even if files change on disk
//! later.

use std::path::Path;

use millstream_pipeline::exec::{ErrorKind, ExecContext, Executor, Split, SplitError, SplitSource};
use millstream_pipeline::graph::{Dataset, Graph};
use millstream_pipeline::plan::{FileOrder, SourcePlan, SplitPlan, plan_splits};
use millstream_pipeline::storage::Storage;

use crate::support::{context, functions, text};

/// Returns a directory with `files` files, and the pattern that matches these files.
fn directory(files: usize) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    for file in 0..files {
        std::fs::write(directory.path().join(format!("{file:03}.txt")), b"").unwrap();
    }
    let pattern = format!("{}/*.txt", directory.path().display());
    (directory, pattern)
}

fn planned(graph: &Graph) -> SplitPlan {
    plan_splits(graph, &functions(), &Storage::default()).unwrap()
}

fn listed(plan: &SplitPlan) -> Vec<String> {
    let SourcePlan::Listed { items } = &plan.sources[0] else {
        panic!("files are listed")
    };
    items
        .iter()
        .map(|item| String::from_utf8(item.payload.clone()).unwrap())
        .collect()
}

/// A split provider that leases the files of a plan in their order, in every pass.
struct InOrder {
    paths: Vec<String>,
    next: (u64, usize),
}

impl SplitSource for InOrder {
    fn next(&mut self, source: u32, repetition: u64) -> Result<Option<Split>, SplitError> {
        if self.next.0 != repetition {
            self.next = (repetition, 0);
        }
        let index = self.next.1;
        let Some(path) = self.paths.get(index) else {
            return Ok(None);
        };
        self.next.1 += 1;
        Ok(Some(Split {
            source,
            repetition,
            index: index as u64,
            lease: 0,
            attempt: 0,
            skipped: false,
            payload: path.clone().into_bytes(),
            version: None,
        }))
    }
}

fn paths(graph: &Graph, context: ExecContext) -> Vec<String> {
    let mut executor = Executor::open(graph, context).unwrap();
    let mut found = Vec::new();
    while let Some(item) = executor.next().unwrap() {
        found.push(String::from_utf8(text(&item.value[0]).to_vec()).unwrap());
    }
    found
}

fn dealt(paths: Vec<String>) -> ExecContext {
    ExecContext {
        splits: Some(Box::new(InOrder { paths, next: (0, 0) })),
        ..context()
    }
}

#[test]
fn a_worker_reads_only_its_dealt_files() {
    let (directory, pattern) = directory(5);
    for dataset in [
        Dataset::files(&pattern),
        Dataset::files_shuffled(&pattern, Some(3)),
    ] {
        let graph = dataset.graph().unwrap();
        let files = listed(&planned(&graph));
        std::fs::remove_file(directory.path().join("001.txt")).unwrap();
        std::fs::write(directory.path().join("000a.txt"), b"").unwrap();
        assert_eq!(paths(&graph, dealt(files.clone())), files);
        std::fs::rename(
            directory.path().join("000a.txt"),
            directory.path().join("001.txt"),
        )
        .unwrap();
    }
    let graph = Dataset::files(&pattern).repeat(Some(2)).graph().unwrap();
    let files = listed(&planned(&graph));
    std::fs::remove_dir_all(directory.path()).unwrap();
    assert_eq!(
        paths(&graph, dealt(files.clone())),
        [files.clone(), files].concat()
    );
}

#[test]
fn a_worker_without_splits_reads_the_plan() {
    let (directory, pattern) = directory(5);
    let graph = Dataset::files(&pattern).graph().unwrap();
    let plan = planned(&graph);
    std::fs::write(directory.path().join("000a.txt"), b"").unwrap();
    let found = paths(
        &graph,
        ExecContext {
            plan: Some(plan.clone()),
            ..context()
        },
    );
    assert_eq!(found, listed(&plan));
}

#[test]
fn a_pathless_split_is_the_dispatchers_fault() {
    let graph = Dataset::files("/nowhere/*.txt").graph().unwrap();
    for payload in [String::new(), "\0".repeat(3)] {
        let mut executor = Executor::open(&graph, dealt(vec![payload.clone()])).unwrap();
        match executor.next() {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Peer, "{payload:?}: {error}"),
            Ok(found) => panic!("{payload:?} yielded {found:?}"),
        }
    }
}

#[test]
fn shuffled_files_change_order_every_pass() {
    let (_directory, pattern) = directory(30);
    let graph = |seed, passes| {
        let files = Dataset::files_shuffled(&pattern, seed);
        files.repeat(Some(passes)).graph().unwrap()
    };
    let sorted = listed(&planned(&graph(None, 1)));
    assert!(sorted.is_sorted());
    let dealt_in = |seed, iteration, epoch| {
        let graph = graph(seed, 1);
        listed(&planned(&graph).shuffled(&graph, FileOrder { iteration, epoch }))
    };
    let read_in = |seed, task_id, epoch| {
        let context = ExecContext {
            task_id,
            epoch,
            ..context()
        };
        paths(&graph(seed, 2), context)
    };
    for seed in [None, Some(7)] {
        let mut orders: Vec<Vec<String>> = (0..3).map(|epoch| dealt_in(seed, 1, epoch)).collect();
        for epoch in 0..3 {
            orders.extend(read_in(seed, 1, epoch).chunks(30).map(<[String]>::to_vec));
        }
        for order in &orders {
            let mut files = order.clone();
            files.sort();
            assert_eq!(files, sorted, "every file once");
        }
        orders.sort();
        orders.dedup();
        assert_eq!(orders.len(), 9, "expected nine different orders");
        // With a seed, all tasks and iterations share an order. Without a seed, each task or iteration
        // has its own order.
        assert_eq!(dealt_in(seed, 1, 2) == dealt_in(seed, 2, 2), seed.is_some());
        assert_eq!(read_in(seed, 1, 2) == read_in(seed, 2, 2), seed.is_some());
    }
    assert_ne!(read_in(None, 7, 0), read_in(Some(7), 1, 0));
}

#[test]
fn files_in_order_stay_in_order() {
    let (directory, pattern) = directory(30);
    let graph = Dataset::files(&pattern).graph().unwrap();
    let order = FileOrder {
        iteration: 5,
        epoch: 1,
    };
    let files = listed(&planned(&graph).shuffled(&graph, order));
    assert!(
        files.is_sorted()
            && files
                .iter()
                .all(|file| Path::new(file).starts_with(directory.path()))
    );
}
