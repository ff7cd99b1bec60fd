//! Tests of the lines of text files.

use std::path::Path;

use millstream_pipeline::exec::{ErrorKind, Executor};
use millstream_pipeline::graph::{Dataset, Graph, ShardBy, Share};
use millstream_testkit::rounds;
use proptest::prelude::*;
use tempfile::TempDir;

use crate::support::{open, text};

/// Makes a directory with one file per entry of `contents`, in this order.
fn files(contents: &[&[u8]]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (index, content) in contents.iter().enumerate() {
        std::fs::write(directory.path().join(format!("{index:04}")), content).unwrap();
    }
    directory
}

fn all(directory: &Path) -> Dataset {
    Dataset::files(format!("{}/*", directory.display()))
}

fn lines(executor: &mut Executor) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(item) = executor.next().unwrap() {
        lines.push(String::from_utf8(text(&item.value[0]).to_vec()).unwrap());
    }
    lines
}

fn lines_of(graph: &Graph) -> Vec<String> {
    lines(&mut open(graph))
}

/// Returns the lines of a file, computed differently: the pieces between newlines, without an empty
/// last piece.
fn model(content: &str) -> Vec<String> {
    let mut pieces: Vec<&str> = content.split('\n').collect();
    let last = pieces.pop().filter(|last| !last.is_empty());
    let ended = pieces
        .into_iter()
        .map(|line| line.strip_suffix('\r').unwrap_or(line));
    ended.chain(last).map(str::to_owned).collect()
}

proptest! {
    #![proptest_config(rounds(50))]

    #[test]
    fn lines_are_what_stands_between_newlines(contents in prop::collection::vec("[ab\r\n\u{e9}]{0,12}", 1..4)) {
        let bytes: Vec<&[u8]> = contents.iter().map(String::as_bytes).collect();
        let directory = files(&bytes);
        let expected: Vec<String> = contents.iter().flat_map(|content| model(content)).collect();
        let graph = all(directory.path()).text_lines().graph().unwrap();
        prop_assert_eq!(lines_of(&graph), expected);
    }

    #[test]
    fn a_line_reader_continues_where_saved(cut in 0usize..9) {
        let directory = files(&[b"one\ntwo\r\nthree\n", b"", b"four\n\nsix"]);
        let graph = all(directory.path()).text_lines().graph().unwrap();
        let expected = ["one", "two", "three", "four", "", "six"];
        let mut executor = open(&graph);
        for _ in 0..cut {
            executor.next().unwrap();
        }
        let state = executor.save().unwrap();
        let mut restored = open(&graph);
        restored.restore(&state).unwrap();
        prop_assert_eq!(lines(&mut restored), &expected[cut.min(6)..]);
    }
}

#[test]
fn an_invalid_line_names_its_place() {
    let directory = files(&[b"good\nb\xffd\n"]);
    let graph = all(directory.path()).text_lines().graph().unwrap();
    let mut executor = open(&graph);
    executor.next().unwrap().unwrap();
    let error = executor.next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data);
    let message = error.to_string();
    assert!(
        message.contains("not UTF-8") && message.contains("/0000 at byte 5, key \"line 2\""),
        "{message}"
    );
}

#[test]
fn a_missing_file_is_named() {
    let directory = files(&[b"/nowhere/at/all\n"]);
    let paths = all(directory.path()).text_lines();
    let error = open(&paths.text_lines().graph().unwrap()).next().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(
        error.to_string().contains("cannot open /nowhere/at/all"),
        "{error}"
    );
}

#[test]
fn interleaved_files_give_their_lines_by_turns() {
    let contents: Vec<String> = (0..5).map(|file| format!("{file}\n").repeat(file + 1)).collect();
    let bytes: Vec<&[u8]> = contents.iter().map(String::as_bytes).collect();
    let directory = files(&bytes);
    let dataset = all(directory.path()).interleave(5, 1, Dataset::text_lines);
    let expected = [
        "0", "1", "2", "3", "4", "1", "2", "3", "4", "2", "3", "4", "3", "4", "4",
    ];
    assert_eq!(lines_of(&dataset.graph().unwrap()), expected);
}

#[test]
fn workers_read_their_own_text_files() {
    let contents: Vec<String> = (0..7).map(|file| format!("{file}\n").repeat(2)).collect();
    let bytes: Vec<&[u8]> = contents.iter().map(String::as_bytes).collect();
    let directory = files(&bytes);
    let share = Share {
        count: 3,
        index: 1,
        seed: 0,
    };
    let interleaved = all(directory.path()).interleave(2, 1, Dataset::text_lines);
    for dataset in [all(directory.path()).text_lines(), interleaved] {
        let graph = dataset.graph().unwrap().sharded(ShardBy::Files, share).unwrap();
        let mut found = lines_of(&graph);
        found.sort();
        assert_eq!(found, ["1", "1", "4", "4"]);
    }
}
