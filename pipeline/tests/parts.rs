//! Tests of files that are read in parts: the reader of a part reads exactly the records that begin in
//! the part.

use millstream_pipeline::exec::{ErrorKind, ExecContext, Executor};
use millstream_pipeline::graph::{Compression, Dataset, FilePart, FixedLength, Graph};
use millstream_pipeline::plan::{ListedItem, SourcePlan, SplitPlan, plan_splits};
use millstream_pipeline::storage::Storage;
use millstream_testkit::rounds;
use proptest::prelude::*;
use tempfile::TempDir;

use crate::support::{context, functions};

/// Makes a directory with one file of `content`, and returns the directory and the file's path.
fn file(content: &[u8]) -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, content).unwrap();
    (directory, path.display().to_string())
}

/// Returns a plan that reads `path` in parts that end at `cuts`. The last part extends beyond the end
/// of any file.
fn cut(path: &str, mut cuts: Vec<u64>) -> SplitPlan {
    cuts.extend([0, 1 << 40]);
    cuts.sort_unstable();
    cuts.dedup();
    let parts = cuts.windows(2).map(|ends| FilePart {
        path,
        range: Some(ends[0]..ends[1]),
    });
    let items = parts.map(|part| ListedItem::new(part.written())).collect();
    SplitPlan {
        sources: vec![SourcePlan::Listed { items }],
    }
}

fn executor(graph: &Graph, plan: &SplitPlan) -> Executor {
    let context = ExecContext {
        plan: Some(plan.clone()),
        ..context()
    };
    Executor::open(graph, context).unwrap()
}

/// Returns the executor's records with their offsets in the file.
fn records(executor: &mut Executor) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    while let Some(item) = executor.next().unwrap() {
        let begin = item.origin.as_ref().unwrap().offset_bytes;
        found.push((begin, item.value[0].contiguous().unwrap().to_vec()));
    }
    found
}

/// Checks that the parts together contain the records of the file, and that saved states continue
/// correctly.
fn check(graph: &Graph, path: &str, cuts: Vec<u64>) {
    let whole = records(&mut executor(graph, &cut(path, Vec::new()).whole()));
    let plan = cut(path, cuts);
    assert_eq!(records(&mut executor(graph, &plan)), whole);
    for passed in 0..=whole.len() {
        let mut first = executor(graph, &plan);
        for _ in 0..passed {
            first.next().unwrap().unwrap();
        }
        let mut second = executor(graph, &plan);
        second.restore(&first.save().unwrap()).unwrap();
        assert_eq!(records(&mut second), whole[passed..]);
    }
}

proptest! {
    #![proptest_config(rounds(40))]

    #[test]
    fn parts_hold_the_files_lines(
        content in "[ab\r\n\u{e9}]{0,30}",
        cuts in prop::collection::vec(0_u64..40, 0..5),
    ) {
        let (_directory, path) = file(content.as_bytes());
        check(&Dataset::files(&path).text_lines().graph().unwrap(), &path, cuts);
    }

    #[test]
    fn parts_hold_the_files_records(
        records in 0_u64..8,
        layout in (1_u64..5, 0_u64..6, 0_u64..6),
        cuts in prop::collection::vec(0_u64..50, 0..5),
    ) {
        let (record_bytes, header_bytes, footer_bytes) = layout;
        let bytes = header_bytes + records * record_bytes + footer_bytes;
        let content: Vec<u8> = (0..bytes).map(|byte| byte as u8).collect();
        let (_directory, path) = file(&content);
        let layout = FixedLength { record_bytes, header_bytes, footer_bytes, compression: Compression::None };
        check(&Dataset::files(&path).fixed_length_records(layout).graph().unwrap(), &path, cuts);
    }
}

#[test]
fn only_seekable_large_files_have_parts() {
    let line = "0123456789abcde\n";
    let (_directory, path) = file(line.repeat(600_000).as_bytes());
    let planned = |dataset: Dataset| {
        let graph = dataset.graph().unwrap();
        let mut plan = plan_splits(&graph, &functions(), &Storage::default()).unwrap();
        match plan.sources.remove(0) {
            SourcePlan::Listed { items } => items.into_iter().map(|item| item.payload).collect::<Vec<_>>(),
            SourcePlan::Counted { .. } => panic!("files are listed"),
        }
    };
    let parts = planned(Dataset::files(&path).text_lines());
    assert_eq!(parts.len(), 3, "expected 9.6 MB in three parts of at most 4 MiB");
    let graph = Dataset::files(&path).text_lines().graph().unwrap();
    let counts = parts.into_iter().map(|part| {
        let items = vec![ListedItem::new(part)];
        let plan = SplitPlan {
            sources: vec![SourcePlan::Listed { items }],
        };
        let found = records(&mut executor(&graph, &plan));
        assert!(found.iter().all(|(_, text)| text == b"0123456789abcde"));
        found.len()
    });
    assert_eq!(counts.sum::<usize>(), 600_000);
    assert_eq!(
        planned(Dataset::files(&path).tfrecord(Compression::None)),
        [path.as_bytes()]
    );
    assert_eq!(planned(Dataset::files(&path)), [path.as_bytes()]);
}

#[test]
fn an_error_in_a_part_names_its_offset() {
    let (_directory, path) = file(b"good\nfine\nb\xffd\n");
    let graph = Dataset::files(&path).text_lines().graph().unwrap();
    let mut executor = executor(&graph, &cut(&path, vec![5]));
    executor.next().unwrap();
    executor.next().unwrap();
    let error = executor.next().unwrap_err().to_string();
    assert!(
        error.contains("at byte 10") && error.contains("line 2 after byte 5"),
        "{error}"
    );
}

#[test]
fn an_indivisible_files_part_is_refused() {
    let (_directory, path) = file(b"");
    let graph = Dataset::files(&path).tfrecord(Compression::None).graph().unwrap();
    let error = executor(&graph, &cut(&path, vec![5])).next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Peer, "{error}");
    assert!(error.to_string().contains("a part of a file"), "{error}");
}
